package headwaters.delta;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.AccessDeniedException;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Files on S3 that appear as a whole, by one request, and only once if they must not replace another one. */
final class ConditionalFiles {
    private static final int ATTEMPTS = 6;
    private static final long FIRST_WAIT_MILLIS = 50;

    private ConditionalFiles() {
    }

    /**
     * Create a file with `If-None-Match: *`; return null, or the error of the request if the file has another content.
     *
     * The answer to a request may be lost, and the client repeats the request. Equal bytes are therefore ours.
     */
    static IOException create(FileSystem files, Path path, byte[] content) throws IOException {
        for (int attempt = 1;; attempt++) {
            try {
                put(files, path, content, true);
                return null;
            } catch (IOException error) {
                byte[] stored = storedAfter(error, files, path);
                if (stored != null) {
                    return Arrays.equals(stored, content) ? null : error;
                }
                // The store answers 409 while another request for the key runs, which may fail: then the name is free.
                if (attempt == ATTEMPTS || error instanceof AccessDeniedException || error instanceof InterruptedIOException) {
                    throw error;
                }
                pause(FIRST_WAIT_MILLIS << attempt, error);
            }
        }
    }

    static void put(FileSystem files, Path path, byte[] content, boolean onlyIfAbsent) throws IOException {
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
