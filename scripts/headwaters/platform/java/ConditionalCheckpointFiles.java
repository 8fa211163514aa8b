package headwaters.delta;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a stream's checkpoint on S3, each written by one request.
 *
 * Spark's own manager writes a file under another name, asks whether the right name is free, and renames the file, which is a copy on
 * S3. Two drivers can then plan the same batch with other inputs. Here the store refuses the second one.
 */
public class ConditionalCheckpointFiles extends FileSystemBasedCheckpointFileManager {
    private final Configuration configuration;

    public ConditionalCheckpointFiles(Path path, Configuration configuration) {
        super(path, configuration);
        this.configuration = configuration;
    }

    /** Return a stream whose content is written when it is closed. */
    @Override
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
        try {
            FileSystem files = path.getFileSystem(this.configuration);
            return new Collected(files, path, overwriteIfPossible, new ByteArrayOutputStream());
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static final class Collected extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FileSystem files;
        private final Path path;
        private final boolean mayReplace;
        private final ByteArrayOutputStream content;
        private boolean isClosed;

        Collected(FileSystem files, Path path, boolean mayReplace, ByteArrayOutputStream content) throws IOException {
            super(content);
            this.files = files;
            this.path = path;
            this.mayReplace = mayReplace;
            this.content = content;
        }

        @Override
        public void cancel() {
            this.isClosed = true;
        }

        @Override
        public void close() throws IOException {
            if (this.isClosed) {
                return;
            }
            this.isClosed = true;
            byte[] bytes = this.content.toByteArray();
            if (this.mayReplace) {
                ConditionalFiles.put(this.files, this.path, bytes, false);
                return;
            }
            IOException refused = ConditionalFiles.create(this.files, this.path, bytes);
            if (refused != null) {
                FileAlreadyExistsException taken = new FileAlreadyExistsException(this.path.toString());
                taken.initCause(refused);
                throw taken;
            }
        }
    }
}
