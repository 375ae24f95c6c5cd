package tierlock.flink;

/**
 * One hold as its events tell it. Times and durations are whole microseconds. It is what Interval is in the Go job's
 * package reconcile; the two are compared field by field by a test.
 */
final class Hold {
    String event = ""; // id of its acquire event; of its end event where the acquire is lost
    String chain = "";
    String key = "";
    String holder = "";
    String tier = "";
    String store = "";
    long token; // zero: none, or no clock
    String producer = "";
    long epoch;
    long acquireSeq; // zero: not seen
    long endSeq;
    long granted;
    Long ended; // null: no end event
    long latest; // latest possible end
    long ttl; // zero: not told
    long maxHold;
    long error; // bound of the clock error, either side; zero: unknown
    String how = "";
    String outcome = "";
    String businessType = "";
    String businessId = "";
    Long before; // version before, null: not told

    /** A forced end is not known: the log also forces one on a hold whose caller never got the grant. */
    boolean endKnown() {
        return ended != null && !how.equals("forced");
    }

    boolean sameProcess(Hold o) {
        return producer.equals(o.producer) && epoch == o.epoch && !producer.isEmpty();
    }

    boolean committed() {
        return outcome.equals("committed");
    }

    /** Its work was rolled back: nothing of it stands. */
    boolean undone() {
        return outcome.equals("rolled_back");
    }

    boolean is(String tier) {
        return this.tier.equals(tier);
    }

    /** By grant, then by event, as bytes: every replay sees the same order. */
    static int byGrant(Hold a, Hold b) {
        int byTime = Long.compare(a.granted, b.granted);
        return byTime != 0 ? byTime : Ids.compare(a.event, b.event);
    }
}
