package tierlock.flink;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;

/** A group of holds of one key that overlapped, or one part of a large one. */
final class Finding {
    String id = "";
    String digest = ""; // of all it tells: equal to the Go job's where both know the same of the same holds
    long pairs;
    long certainPairs;
    long atRiskPairs; // of which neither hold's work was rolled back
    String state = "open"; // or harmless: no pair of its group is at risk
    int depth; // most members inside at once, by raw time
    int part; // of a group beyond Rule.group: 2, 3, ...; zero: the only one, or the first
    int carried; // the first members, shown again from the part before
    long from; // first grant
    long to; // latest possible end
    final EnumSet<Cause> causes = EnumSet.noneOf(Cause.class);
    final List<Hold> members = new ArrayList<>(); // by grant

    /** Tells the rest from members and pairs. */
    void finish() {
        from = members.get(0).granted;
        to = Long.MIN_VALUE;
        List<String> parts = new ArrayList<>(List.of(id, Long.toString(pairs), Long.toString(certainPairs), Long.toString(atRiskPairs)));
        for (Hold m : members) {
            to = Math.max(to, m.latest);
            parts.addAll(List.of(m.event, m.holder, Long.toString(m.granted), Long.toString(m.latest), m.how, m.outcome));
        }
        digest = Ids.of(parts);
        depth = mostInside();
    }

    private int mostInside() {
        long[] ends = members.stream().mapToLong(m -> m.latest).sorted().toArray();
        int most = 0;
        int gone = 0;
        for (int i = 0; i < ends.length; i++) {
            while (gone < ends.length && ends[gone] <= members.get(i).granted) {
                gone++;
            }
            most = Math.max(most, i + 1 - gone);
        }
        return most;
    }
}
