package tierlock.flink;

import org.apache.flink.types.Row;

/** The rows that SQL and the functions hand each other: the order of fields is that of the types below. */
final class Rows {
    static final String EVENT = "ROW<`type` STRING, producer STRING, epoch BIGINT, seq BIGINT, `offset` BIGINT, chain STRING, "
            + "tier STRING, store STRING, token BIGINT, granted BIGINT, ended BIGINT, ttl BIGINT, max_hold BIGINT, "
            + "clock_error BIGINT, how STRING, outcome STRING, business BOOLEAN, business_type STRING, business_id STRING, "
            + "version_before BIGINT>";

    static final String HOLD = "ROW<event STRING, chain STRING, `key` STRING, holder STRING, tier STRING, store STRING, "
            + "token BIGINT, producer STRING, epoch BIGINT, acquire_seq BIGINT, end_seq BIGINT, granted BIGINT, ended BIGINT, "
            + "latest BIGINT, ttl BIGINT, max_hold BIGINT, clock_error BIGINT, how STRING, outcome STRING, "
            + "business_type STRING, business_id STRING, version_before BIGINT>";

    static final String FINDING = "ROW<id STRING, digest STRING, state STRING, chain STRING, `key` STRING, certain BOOLEAN, "
            + "causes ARRAY<STRING>, members ARRAY<STRING>, pairs BIGINT, certain_pairs BIGINT, at_risk_pairs BIGINT, depth INT, part INT, "
            + "carried INT, from_us BIGINT, to_us BIGINT>";

    private Rows() {}

    static Event event(Row r) {
        Event e = new Event();
        int i = 0;
        e.type = text(r, i++);
        e.producer = text(r, i++);
        e.epoch = number(r, i++);
        e.seq = number(r, i++);
        e.offset = number(r, i++);
        e.chain = text(r, i++);
        e.tier = text(r, i++);
        e.store = text(r, i++);
        e.token = number(r, i++);
        e.granted = number(r, i++);
        e.ended = (Long) r.getField(i++);
        e.ttl = number(r, i++);
        e.maxHold = number(r, i++);
        e.error = number(r, i++);
        e.how = text(r, i++);
        e.outcome = text(r, i++);
        e.business = Boolean.TRUE.equals(r.getField(i++));
        e.businessType = text(r, i++);
        e.businessId = text(r, i++);
        e.before = (Long) r.getField(i++);
        return e;
    }

    static Row of(Hold h) {
        return Row.of(h.event, h.chain, h.key, h.holder, h.tier, h.store, h.token, h.producer, h.epoch, h.acquireSeq, h.endSeq,
                h.granted, h.ended, h.latest, h.ttl, h.maxHold, h.error, h.how, h.outcome, h.businessType, h.businessId, h.before);
    }

    static Hold hold(Row r) {
        Hold h = new Hold();
        int i = 0;
        h.event = text(r, i++);
        h.chain = text(r, i++);
        h.key = text(r, i++);
        h.holder = text(r, i++);
        h.tier = text(r, i++);
        h.store = text(r, i++);
        h.token = number(r, i++);
        h.producer = text(r, i++);
        h.epoch = number(r, i++);
        h.acquireSeq = number(r, i++);
        h.endSeq = number(r, i++);
        h.granted = number(r, i++);
        h.ended = (Long) r.getField(i++);
        h.latest = number(r, i++);
        h.ttl = number(r, i++);
        h.maxHold = number(r, i++);
        h.error = number(r, i++);
        h.how = text(r, i++);
        h.outcome = text(r, i++);
        h.businessType = text(r, i++);
        h.businessId = text(r, i++);
        h.before = (Long) r.getField(i++);
        return h;
    }

    static Row of(Finding f) {
        Hold first = f.members.get(0);
        return Row.of(f.id, f.digest, f.state, first.chain, first.key, f.certainPairs > 0, f.causes.stream().map(Cause::text).toArray(String[]::new),
                f.members.stream().map(m -> m.event).toArray(String[]::new), f.pairs, f.certainPairs, f.atRiskPairs,
                f.depth, f.part, f.carried, f.from, f.to);
    }

    private static String text(Row r, int i) {
        Object v = r.getField(i);
        return v == null ? "" : (String) v;
    }

    private static long number(Row r, int i) {
        Object v = r.getField(i);
        return v == null ? 0 : (Long) v;
    }
}
