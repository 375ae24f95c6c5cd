package tierlock.flink;

/** Says which holds of one key overlap: rule.go of the Go job, sentence by sentence. */
final class Rule {
    enum Relation { APART, POSSIBLE, CERTAIN }

    /** Events carry whole microseconds: so far a time may lie before the real one. */
    private static final long RESOLUTION = 1;

    private static final long CLOCK_SLACK = 1_000_000L;
    private static final long CLOCK_SENSE = 24L * 3600 * 1_000_000;
    private static final long LARGEST_CLOCK = 1L << 53; // beyond it a token is a count

    final long defaultError;
    final int group;

    /**
     * @param defaultError the clock error of events that carry none, in microseconds
     * @param group how many holds one finding takes before the next part begins
     */
    Rule(long defaultError, int group) {
        if (defaultError < 1 || group < 2) {
            throw new IllegalArgumentException("default error " + defaultError + " us, group " + group + ": want 1 and 2 or more");
        }
        this.defaultError = defaultError;
        this.group = group;
    }

    /** The clock error of h, either side. */
    long margin(Hold h) {
        return h.error <= 0 ? defaultError : h.error + RESOLUTION;
    }

    long start(Hold h) {
        return h.granted - margin(h);
    }

    long end(Hold h) {
        return h.latest + margin(h);
    }

    /** Judges two holds of one key by two holders; a comes first by grant. */
    Relation relate(Hold a, Hold b) {
        boolean optimistic = a.is("optimistic") || b.is("optimistic");
        boolean oneProcess = a.sameProcess(b);
        if (optimistic) {
            if (!a.committed() || !b.committed() || guarded(a, b) || a.tier.equals(b.tier) && !lostUpdate(a, b)) {
                return Relation.APART;
            }
        } else if (oneProcess) {
            return relateInside(a, b);
        }
        long slack = margin(a) + margin(b);
        boolean known = a.error > 0 && b.error > 0 && !clockOff(a) && !clockOff(b);
        if (optimistic && !lostUpdate(a, b)) {
            known = false; // they were at it together, but who compares versions does no harm
        }
        if (oneProcess) {
            slack = 0;
            known = false; // one clock; whether it was stepped nobody can tell
        }
        if (!crosses(a.granted, a.latest, b.granted, b.latest, slack) || handedOver(a, b)) {
            return Relation.APART;
        }
        if (known && a.endKnown() && b.endKnown() && crosses(a.granted, a.ended, b.granted, b.ended, -slack)) {
            return Relation.CERTAIN;
        }
        return Relation.POSSIBLE;
    }

    /** Inside one process the seqs of the events tell the order, whatever the wall clock did. */
    private static Relation relateInside(Hold a, Hold b) {
        if (left(a, b) || left(b, a)) {
            return Relation.APART;
        }
        boolean interleaved = a.acquireSeq != 0 && a.acquireSeq < b.endSeq && b.acquireSeq != 0 && b.acquireSeq < a.endSeq;
        boolean raw = crossesRaw(a, b);
        if (raw && interleaved && a.endKnown() && b.endKnown() && crosses(a.granted, a.ended, b.granted, b.ended, 0)) {
            return Relation.CERTAIN;
        }
        if (raw || interleaved && (!a.tier.equals(b.tier) || a.is("bypass"))) {
            return Relation.POSSIBLE;
        }
        return Relation.APART;
    }

    /** Whether a's holder had given its hold back before b's acquire was written. */
    private static boolean left(Hold a, Hold b) {
        return a.endSeq != 0 && a.endSeq < b.acquireSeq && a.how.equals("released");
    }

    static boolean crossesRaw(Hold a, Hold b) {
        return crosses(a.granted, a.latest, b.granted, b.latest, 0);
    }

    /** Whether two spans overlap when slack is added to every end; touching is not overlapping. */
    private static boolean crosses(long aStart, long aEnd, long bStart, long bEnd, long slack) {
        return bStart - aEnd < slack && aStart - bEnd < slack;
    }

    /** Whether one store gave the key from one hold to the other: its order needs no clock of ours. */
    private static boolean handedOver(Hold a, Hold b) {
        return a.is("shared") && b.is("shared") && a.store.equals(b.store) && !a.store.isEmpty()
                && a.how.equals("released") && b.how.equals("released")
                && !crosses(a.granted, a.ended, b.granted, b.ended, 0);
    }

    /** Whether both committed from the same version of the same record. */
    static boolean lostUpdate(Hold a, Hold b) {
        return a.committed() && b.committed() && oneRecord(a, b) && a.before.equals(b.before);
    }

    /** Whether both told from which version they committed, and not from the same. */
    private static boolean guarded(Hold a, Hold b) {
        return oneRecord(a, b) && !a.before.equals(b.before);
    }

    private static boolean oneRecord(Hold a, Hold b) {
        return a.before != null && b.before != null && a.businessType.equals(b.businessType) && a.businessId.equals(b.businessId);
    }

    /** Whether the store's token, its server's clock, contradicts the hold's own time. */
    boolean clockOff(Hold h) {
        if (!h.is("shared") || h.token <= 0 || h.token > LARGEST_CLOCK) {
            return false;
        }
        long off = Math.abs(h.granted - h.token);
        return off > margin(h) + CLOCK_SLACK && off < CLOCK_SENSE;
    }
}
