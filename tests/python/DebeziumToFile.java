import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Writes the values of Debezium's events to a file, one a line, until its input ends. */
public class DebeziumToFile {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(reader);
        }
        ExecutorService executor = Executors.newSingleThreadExecutor();
        try (BufferedWriter out = Files.newBufferedWriter(Path.of(arguments[1]));
                DebeziumEngine<ChangeEvent<String, String>> engine =
                        DebeziumEngine.create(Json.class)
                                .using(settings)
                                .using((success, message, error) -> {
                                    if (!success) {
                                        System.err.println(message + ": " + error);
                                    }
                                })
                                .notifying(event -> {
                                    try {
                                        out.write(String.valueOf(event.value()));
                                        out.write('\n');
                                        out.flush();
                                    } catch (java.io.IOException error) {
                                        throw new RuntimeException(error);
                                    }
                                })
                                .build()) {
            executor.execute(engine);
            while (System.in.read() >= 0) {}
        }
        executor.shutdown();
    }
}
