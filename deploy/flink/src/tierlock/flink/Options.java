package tierlock.flink;

import java.nio.file.Path;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The command line, and the words of the script that it stands for. */
final class Options {
    static final String USAGE = """
            tierlock.flink.Reconcile --brokers HOST:PORT[,...] [options]
              --topic NAME            of the events (tierlock.events.v1)
              --from TIME --to TIME   the closed period, RFC 3339: findings that reach into it (all there are)
              --read-from TIME        begin to read where records were appended at TIME (the oldest record)
              --as-of TIME            when silence is measured (now)
              --idle SPAN             a producer silent for so long is over (1h)
              --default-error SPAN    clock error of events that carry none (500ms)
              --group N               holds in one finding before its next part begins (10000)
              --ignore TIER[,...]     tiers left out (none)
              --output print | kafka:TOPIC | dir:PATH   (print)
              --property NAME=VALUE   of Kafka's clients, as security.protocol=SASL_SSL; may come again
              --parallelism N         of each step (the cluster's default)
              --sql FILE              another script than the one in the jar
            Spans: 500us, 500ms, 20s, 10m, 1h. Idle, default error, group and ignore must be those of the Go job
            (reconcile.idle, reconcile.rule.*), or the findings differ.
            """;

    private static final List<String> NAMES = List.of("brokers", "topic", "from", "to", "read-from", "as-of", "idle", "default-error", "group",
            "ignore", "output", "property", "parallelism", "sql");
    private static final List<String> TIERS = List.of("shared", "optimistic", "local", "bypass");
    private static final Pattern SPAN = Pattern.compile("(\\d{1,9})(us|ms|s|m|h)");
    private static final Map<String, Long> UNITS = Map.of("us", 1L, "ms", 1_000L, "s", 1_000_000L, "m", 60_000_000L, "h", 3_600_000_000L);

    final Path sql; // null: the one in the jar
    final int parallelism; // zero: the cluster's default
    final Map<String, String> words = new HashMap<>();

    private final Map<String, String> given = new HashMap<>();
    private final Map<String, String> properties = new TreeMap<>();
    private final List<String> faults = new ArrayList<>();

    /** Reports every bad option at once, by an IllegalArgumentException. */
    Options(String... args) {
        read(args);
        sql = given.containsKey("sql") ? Path.of(given.get("sql")) : null;
        words.put("topic", quoted(given.getOrDefault("topic", "tierlock.events.v1")));
        words.put("brokers", quoted(given.getOrDefault("brokers", "")));
        words.put("kafka", properties.entrySet().stream()
                .map(p -> ", 'properties." + quoted(p.getKey()) + "' = '" + quoted(p.getValue()) + "'").collect(Collectors.joining()));
        if (words.get("brokers").isEmpty()) {
            fault("brokers", "", "is required");
        }
        times();
        words.put("idle_us", Long.toString(span("idle", "1h", 1)));
        words.put("default_error_us", Long.toString(span("default-error", "500ms", 1)));
        words.put("group", Integer.toString(count("group", "10000", 2)));
        parallelism = count("parallelism", "0", 0);
        words.put("ignore", ignored());
        words.put("sink", sink(given.getOrDefault("output", "print")));
        if (!faults.isEmpty()) {
            throw new IllegalArgumentException(String.join("\n", faults));
        }
    }

    private void read(String... args) {
        for (int i = 0; i < args.length; i += 2) {
            String name = args[i].startsWith("--") ? args[i].substring(2) : "";
            if (!NAMES.contains(name)) {
                fault("option", args[i], "is not one of --" + String.join(", --", NAMES));
            } else if (i + 1 == args.length) {
                fault(name, "", "want a value");
            } else if (name.equals("property")) {
                int at = args[i + 1].indexOf('=');
                if (at < 1) {
                    fault(name, args[i + 1], "want NAME=VALUE");
                    continue;
                }
                properties.put(args[i + 1].substring(0, at), args[i + 1].substring(at + 1));
            } else if (given.put(name, args[i + 1]) != null) {
                fault(name, args[i + 1], "is given twice");
            }
        }
    }

    private void times() {
        long from = micros("from", Long.MIN_VALUE);
        long to = micros("to", Long.MAX_VALUE);
        if (from >= to) {
            fault("to", given.get("to"), "must be after --from");
        }
        words.put("from_us", from == Long.MIN_VALUE ? "-9223372036854775807" : Long.toString(from));
        words.put("to_us", Long.toString(to));
        words.put("as_of_us", Long.toString(micros("as-of", micros(Instant.now()))));
        words.put("startup", given.containsKey("read-from")
                ? "'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '" + Math.floorDiv(micros("read-from", 0), 1000) + "'"
                : "'scan.startup.mode' = 'earliest-offset'");
    }

    private long micros(String name, long otherwise) {
        String text = given.get(name);
        if (text == null) {
            return otherwise;
        }
        try {
            return micros(OffsetDateTime.parse(text).toInstant());
        } catch (DateTimeException e) {
            fault(name, text, "want RFC 3339, as 2026-11-29T10:00:00Z");
            return otherwise;
        }
    }

    private static long micros(Instant t) {
        return ChronoUnit.MICROS.between(Instant.EPOCH, t);
    }

    private long span(String name, String otherwise, long least) {
        String text = given.getOrDefault(name, otherwise);
        Matcher m = SPAN.matcher(text);
        long us = m.matches() ? Long.parseLong(m.group(1)) * UNITS.get(m.group(2)) : 0;
        if (us < least) {
            fault(name, text, "want a span above zero, as 500ms");
        }
        return us;
    }

    private int count(String name, String otherwise, int least) {
        String text = given.getOrDefault(name, otherwise);
        int n = text.matches("\\d{1,9}") ? Integer.parseInt(text) : -1;
        if (n < least) {
            fault(name, text, "want " + least + " or more");
        }
        return n;
    }

    private String ignored() {
        if (!given.containsKey("ignore")) {
            return "''";
        }
        String[] tiers = given.get("ignore").split(",", -1);
        for (String t : tiers) {
            if (!TIERS.contains(t)) {
                fault("ignore", t, "want one of " + String.join(", ", TIERS));
            }
        }
        return "'" + String.join("', '", tiers) + "'";
    }

    private String sink(String output) {
        if (output.equals("print")) {
            return "'connector' = 'print'";
        }
        String rest = output.substring(output.indexOf(':') + 1);
        if (output.startsWith("dir:") && !rest.isEmpty()) {
            return "'connector' = 'filesystem', 'path' = '" + quoted(rest) + "', 'format' = 'json'";
        }
        if (output.startsWith("kafka:") && !rest.isEmpty()) {
            return "'connector' = 'kafka', 'topic' = '" + quoted(rest) + "', 'properties.bootstrap.servers' = '" + words.get("brokers")
                    + "', 'key.format' = 'raw', 'key.fields' = 'id', 'format' = 'json'" + words.get("kafka");
        }
        fault("output", output, "want print, kafka:TOPIC or dir:PATH");
        return "";
    }

    private void fault(String name, String value, String rule) {
        faults.add(name + ": \"" + value + "\" " + rule);
    }

    /** As it stands between the quotes of SQL. */
    private static String quoted(String text) {
        return text.replace("'", "''");
    }
}
