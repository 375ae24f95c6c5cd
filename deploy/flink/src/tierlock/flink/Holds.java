package tierlock.flink;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Joins the events of one holder of one key into its holds: hold.go of the Go job. */
final class Holds {
    private Holds() {}

    /** A hold in the making. */
    private static final class Open {
        final Hold hold = new Hold();
        boolean acquired;

        void take(Event e) {
            if (e.type.equals("acquire") || !acquired) {
                hold.event = e.id();
                hold.chain = e.chain;
                hold.tier = e.tier;
                hold.store = e.store;
                hold.token = e.token;
                hold.producer = e.producer;
                hold.epoch = e.epoch;
            }
            hold.ttl = Math.max(hold.ttl, e.ttl);
            hold.maxHold = Math.max(hold.maxHold, e.maxHold);
            hold.error = Math.max(hold.error, e.error);
            if (e.business) {
                hold.businessType = e.businessType;
                hold.businessId = e.businessId;
                hold.before = e.before;
            }
            if (e.type.equals("acquire")) {
                acquired = true;
                hold.acquireSeq = e.seq;
                return;
            }
            if (e.type.equals("optimistic")) { // one event for both ends
                acquired = true;
            }
            if (e.ended != null && (hold.ended == null || e.ended > hold.ended)) { // an expiry may be followed by an unlock
                hold.ended = e.ended;
                hold.how = e.how;
                hold.outcome = e.outcome;
                hold.endSeq = e.seq;
            }
        }
    }

    /** Events in any order, each once; holds without their latest end. */
    static List<Hold> of(String key, String holder, List<Event> events) {
        events.sort(Comparator.comparingLong(e -> e.offset));
        Map<Long, Open> byGrant = new LinkedHashMap<>();
        for (Event e : events) {
            Open o = byGrant.computeIfAbsent(e.granted, granted -> new Open());
            o.hold.key = key;
            o.hold.holder = holder;
            o.hold.granted = e.granted;
            o.take(e);
        }
        return pairUp(byGrant.values());
    }

    /**
     * Joins an acquire that has no end to an end that has no acquire: another process, which had attached to the
     * lock, gave it back and told its own times.
     */
    private static List<Hold> pairUp(Collection<Open> all) {
        List<Open> sorted = new ArrayList<>(all);
        sorted.sort((a, b) -> Hold.byGrant(a.hold, b.hold));
        List<Open> kept = new ArrayList<>();
        for (Open o : sorted) {
            Open waiting = o.acquired ? null : unended(kept, o.hold.ended);
            if (waiting == null) {
                kept.add(o);
                continue;
            }
            waiting.hold.ended = o.hold.ended;
            waiting.hold.how = o.hold.how;
            waiting.hold.outcome = o.hold.outcome;
            waiting.hold.error = Math.max(waiting.hold.error, o.hold.error);
        }
        return kept.stream().map(o -> o.hold).toList();
    }

    private static Open unended(List<Open> kept, long ended) {
        for (Open o : kept) {
            if (o.acquired && o.hold.ended == null && ended >= o.hold.granted) {
                return o;
            }
        }
        return null;
    }
}
