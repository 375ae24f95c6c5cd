package tierlock.flink;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

/** Names of findings, the same as the Go job's. */
final class Ids {
    /** Of the rule, part of every id: the Go job's ruleVersion. */
    static final int RULE_VERSION = 3;

    private Ids() {}

    static String overlap(Hold first) {
        return of(List.of("overlap", first.key, first.holder, Long.toString(first.granted)));
    }

    /** 32 hex digits of SHA-256 over the parts, each kept apart from the next. */
    static String of(List<String> parts) {
        MessageDigest sha;
        try {
            sha = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
        sha.update(("tierlock.finding." + RULE_VERSION).getBytes(UTF_8));
        for (String part : parts) {
            sha.update((byte) 0);
            sha.update(part.getBytes(UTF_8));
        }
        return HexFormat.of().formatHex(sha.digest(), 0, 16);
    }

    /** Order by bytes, which is Go's. */
    static int compare(String a, String b) {
        return Arrays.compareUnsigned(a.getBytes(UTF_8), b.getBytes(UTF_8));
    }
}
