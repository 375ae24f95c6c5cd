package tierlock.flink;

/** One event of a hold, as far as it tells of the hold. */
final class Event {
    String type = "";
    String producer = "";
    long epoch;
    long seq;
    long offset; // of its record: events are taken in this order
    String chain = "";
    String tier = "";
    String store = "";
    long token;
    long granted;
    Long ended; // null: not told
    long ttl;
    long maxHold;
    long error;
    String how = "";
    String outcome = "";
    boolean business; // whether it tells of any
    String businessType = "";
    String businessId = "";
    Long before;

    String id() {
        return producer + "/" + epoch + "/" + seq;
    }
}
