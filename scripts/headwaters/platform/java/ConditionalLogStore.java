package headwaters.delta;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A log store for Delta tables on S3 that any number of drivers write.
 *
 * A commit is one request with `If-None-Match: *`, which the store refuses if the file exists. Janino compiles this file, see
 * headwaters.platform.log_store: it infers no types of generics, so that the casts below are needed.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
    private static final int ATTEMPTS = 6;
    private static final long FIRST_WAIT_MILLIS = 50;

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
            put(files, path, content, false);
            return;
        }
        for (int attempt = 1;; attempt++) {
            try {
                put(files, path, content, true);
                return;
            } catch (IOException error) {
                byte[] stored = storedAfter(error, files, path);
                // The answer to our own request was lost and the client repeated it. Delta would otherwise commit the same rows
                // again, as the next version. Each commit has a random txnId, so that equal bytes are ours.
                if (stored != null && Arrays.equals(stored, content)) {
                    return;
                }
                if (stored != null) {
                    FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
                    taken.initCause(error);
                    throw taken;
                }
                // The store answers 409 while another request for the key runs, which may fail: then the name is free.
                if (attempt == ATTEMPTS || error instanceof AccessDeniedException || error instanceof InterruptedIOException) {
                    throw error;
                }
                pause(FIRST_WAIT_MILLIS << attempt, error);
            }
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

    private static void put(FileSystem files, Path path, byte[] content, boolean onlyIfAbsent) throws IOException {
        FSDataOutputStreamBuilder builder = files.createFile(path);
        builder.overwrite(true); // S3A would ask for the file first, and then write without a condition
        builder.recursive();
        builder.opt("fs.s3a.create.performance", true);
        if (onlyIfAbsent) {
            builder.must("fs.option.create.conditional.overwrite", true);
        }
        FSDataOutputStream out = (FSDataOutputStream) builder.build();
        boolean complete = false;
        try {
            out.write(content);
            complete = true;
        } finally {
            if (!complete) {
                out.abort(); // close would publish a part
            }
        }
        out.close();
    }

    /** Return the file's content after a failed request, or null if there is no file. */
    private static byte[] storedAfter(IOException error, FileSystem files, Path path) throws IOException {
        try {
            FSDataInputStream in = files.open(path);
            try {
                return in.readAllBytes();
            } finally {
                in.close();
            }
        } catch (FileNotFoundException absent) {
            return null;
        } catch (IOException unreadable) {
            error.addSuppressed(unreadable);
            throw error;
        }
    }

    private static void pause(long millis, IOException error) throws IOException {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            error.addSuppressed(interrupted);
            throw error;
        }
    }
}
