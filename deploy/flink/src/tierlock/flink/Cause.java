package tierlock.flink;

import java.util.EnumSet;

/** How two holds came to overlap, the gravest first; names are those of the Go job's findings. */
enum Cause {
    FAILOVER, EXPIRED_IN_HOLD, UNGUARDED_WRITE, CLOCK, UNRELEASED, BYPASS, LOCAL_ELSEWHERE, OPTIMISTIC, PERMITS;

    String text() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }

    static EnumSet<Cause> of(Rule rule, Hold a, Hold b) {
        EnumSet<Cause> set = EnumSet.of(byTier(a, b));
        if (Rule.lostUpdate(a, b)) {
            set.add(UNGUARDED_WRITE);
        }
        if (rule.clockOff(a) || rule.clockOff(b)) {
            set.remove(FAILOVER);
            set.add(CLOCK);
        } else if (a.sameProcess(b) && !Rule.crossesRaw(a, b)) {
            set.add(CLOCK);
        }
        return set;
    }

    private static Cause byTier(Hold a, Hold b) {
        if (a.is("optimistic") || b.is("optimistic")) {
            return OPTIMISTIC;
        }
        if (a.is("bypass") || b.is("bypass")) {
            return BYPASS;
        }
        if (a.is("local") && b.is("local") && a.sameProcess(b)) {
            return PERMITS;
        }
        if (a.is("local") || b.is("local")) {
            return LOCAL_ELSEWHERE;
        }
        if (forgotten(a) || forgotten(b)) {
            return FAILOVER;
        }
        if (ranOut(a) || ranOut(b)) {
            return EXPIRED_IN_HOLD;
        }
        return a.ended == null || b.ended == null ? UNRELEASED : FAILOVER;
    }

    private static boolean ranOut(Hold h) {
        return h.how.equals("expired") || h.how.equals("lost");
    }

    /** Whether a hold was gone from its store before its first ttl was over. */
    private static boolean forgotten(Hold h) {
        return h.how.equals("lost") && h.ttl > 0 && h.ended < h.granted + h.ttl;
    }
}
