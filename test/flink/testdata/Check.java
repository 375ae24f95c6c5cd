package tierlock.flink;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Lets a test ask the parts of the job that need no Flink. */
public final class Check {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "judge" -> judge(Long.parseLong(args[1]), Integer.parseInt(args[2]));
            case "script" -> script(args);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    /** Reads holds, one a line, and writes findings, one a line. */
    private static void judge(long defaultError, int group) throws Exception {
        Map<String, List<Hold>> byKey = new LinkedHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Hold h = hold(line.split("\t", -1));
            byKey.computeIfAbsent(h.key, k -> new ArrayList<>()).add(h);
        }
        StringBuilder out = new StringBuilder();
        for (List<Hold> holds : byKey.values()) {
            for (Finding f : Groups.findings(new Rule(defaultError, group), holds)) {
                out.append(String.join("\t", f.id, f.digest, f.pairs + "", f.certainPairs + "", f.state, f.atRiskPairs + "", f.depth + "", f.part + "", f.carried + "",
                        f.from + "", f.to + "", f.causes.stream().map(Cause::text).collect(Collectors.joining(",")),
                        f.members.stream().map(m -> m.event).collect(Collectors.joining(",")))).append('\n');
            }
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static Hold hold(String[] f) {
        Hold h = new Hold();
        int i = 0;
        h.event = f[i++];
        h.chain = f[i++];
        h.key = f[i++];
        h.holder = f[i++];
        h.tier = f[i++];
        h.store = f[i++];
        h.token = Long.parseLong(f[i++]);
        h.producer = f[i++];
        h.epoch = Long.parseLong(f[i++]);
        h.acquireSeq = Long.parseLong(f[i++]);
        h.endSeq = Long.parseLong(f[i++]);
        h.granted = Long.parseLong(f[i++]);
        h.ended = number(f[i++]);
        h.latest = Long.parseLong(f[i++]);
        h.ttl = Long.parseLong(f[i++]);
        h.error = Long.parseLong(f[i++]);
        h.how = f[i++];
        h.outcome = f[i++];
        h.businessType = f[i++];
        h.businessId = f[i++];
        h.before = number(f[i++]);
        return h;
    }

    private static Long number(String text) {
        return text.isEmpty() ? null : Long.valueOf(text);
    }

    /** Writes the statements that a script and a command line make, a line of dashes after each. */
    private static void script(String[] args) throws Exception {
        try {
            Options o = new Options(java.util.Arrays.copyOfRange(args, 2, args.length));
            for (String s : Script.statements(Files.readString(Path.of(args[1])), o.words)) {
                System.out.println(s + "\n----");
            }
        } catch (IllegalArgumentException e) {
            System.out.println(e.getMessage());
            System.exit(2);
        }
    }
}
