package headwaters.delta;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A log store for Delta tables on S3 that any number of drivers write.
 *
 * A commit is one request with `If-None-Match: *`, which the store refuses if the file exists. Janino compiles this file, see
 * headwaters.platform.log_store: it infers no types of generics, so that the casts below are needed.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    /** Write a file of the log. Without `overwrite`, throw FileAlreadyExistsException if another writer has written it. */
    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration) throws IOException {
        // Collected first: an action that cannot be computed must not leave a part of a commit.
        byte[] content = joined(actions);
        FileSystem files = path.getFileSystem(configuration);
        if (overwrite.booleanValue()) {
            ConditionalFiles.put(files, path, content, false);
            return;
        }
        // Delta would otherwise commit the same rows again, as the next version. Each commit has a random txnId, so that no two
        // are equal.
        IOException refused = ConditionalFiles.create(files, path, content);
        if (refused != null) {
            FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
            taken.initCause(refused);
            throw taken;
        }
    }

    /** Return false: a file of S3 is visible as a whole or not at all. */
    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return Boolean.FALSE;
    }

    private static byte[] joined(Iterator actions) throws IOException {
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            lines.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            lines.write('\n');
        }
        return lines.toByteArray();
    }
}
