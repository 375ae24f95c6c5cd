package tierlock.flink;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs reconcile.sql as one batch job: on the cluster that flink run submits it to, or, started as a plain program, on a
 * cluster inside this process. It ends when all is written.
 */
public final class Reconcile {
    private Reconcile() {}

    public static void main(String[] args) throws Exception {
        Options options;
        try {
            options = new Options(args);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage() + "\n\n" + Options.USAGE);
            System.exit(2);
            return;
        }
        Configuration conf = new Configuration();
        if (options.parallelism > 0) {
            conf.set(CoreOptions.DEFAULT_PARALLELISM, options.parallelism);
        }
        TableEnvironment flink = TableEnvironment.create(EnvironmentSettings.newInstance().inBatchMode().withConfiguration(conf).build());
        for (String statement : Script.statements(script(options), options.words)) {
            var result = flink.executeSql(statement);
            if (result.getJobClient().isPresent()) {
                result.await();
            }
        }
    }

    private static String script(Options options) throws IOException {
        if (options.sql != null) {
            return Files.readString(options.sql);
        }
        try (InputStream in = Reconcile.class.getResourceAsStream("/reconcile.sql")) {
            if (in == null) {
                throw new IOException("reconcile.sql is not in the jar; --sql FILE names one");
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
