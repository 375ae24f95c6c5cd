package tierlock.flink;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;

/**
 * Finds the groups among holds of one key: overlap.go of the Go job. SQL brings one island at a time, holds whose spans
 * with their clock error reach into each other; the rule may split it further, since not every two such holds are a pair.
 */
final class Groups {
    private final Rule rule;
    private final List<Hold> holds;
    private final int[] parent; // union-find over indexes into holds
    private final long[] pairs; // in which the hold is the later one
    private final long[] certain;
    private final long[] atRisk; // neither hold's work was rolled back
    private final List<EnumSet<Cause>> causes = new ArrayList<>();

    private Groups(Rule rule, List<Hold> holds) {
        this.rule = rule;
        this.holds = holds;
        parent = new int[holds.size()];
        pairs = new long[holds.size()];
        certain = new long[holds.size()];
        atRisk = new long[holds.size()];
        for (int i = 0; i < parent.length; i++) {
            parent[i] = i;
            causes.add(EnumSet.noneOf(Cause.class));
        }
    }

    /** The findings of holds of one key, in any order; none of a hold that is in no pair. */
    static List<Finding> findings(Rule rule, List<Hold> holds) {
        List<Hold> sorted = new ArrayList<>(holds);
        sorted.sort(Hold::byGrant);
        Groups g = new Groups(rule, sorted);
        g.sweep();
        return g.collect();
    }

    /** Visits holds by stretched start and pairs each with those whose stretched end is still ahead. */
    private void sweep() {
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < holds.size(); i++) {
            order.add(i);
        }
        order.sort((a, b) -> Long.compare(rule.start(holds.get(a)), rule.start(holds.get(b))));
        List<Integer> active = new ArrayList<>();
        for (int x : order) {
            long start = rule.start(holds.get(x));
            active.removeIf(y -> rule.end(holds.get(y)) < start);
            for (int y : active) {
                pair(Math.min(x, y), Math.max(x, y));
            }
            active.add(x);
        }
    }

    private void pair(int first, int later) {
        Hold a = holds.get(first);
        Hold b = holds.get(later);
        if (a.holder.equals(b.holder)) {
            return; // two of the same holder are no conflict
        }
        Rule.Relation relation = rule.relate(a, b);
        if (relation == Rule.Relation.APART) {
            return;
        }
        pairs[later]++;
        if (relation == Rule.Relation.CERTAIN) {
            certain[later]++;
        }
        if (!a.undone() && !b.undone()) {
            atRisk[later]++;
        }
        causes.get(later).addAll(Cause.of(rule, a, b));
        int ra = root(first);
        int rb = root(later);
        parent[Math.max(ra, rb)] = Math.min(ra, rb);
    }

    private int root(int i) {
        while (parent[i] != i) {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        return i;
    }

    private List<Finding> collect() {
        List<List<Integer>> members = new ArrayList<>(); // by the earliest member
        int[] place = new int[holds.size()];
        for (int i = 0; i < holds.size(); i++) {
            int root = root(i);
            if (root == i) {
                place[i] = members.size();
                members.add(new ArrayList<>());
            }
            members.get(place[root]).add(i);
        }
        List<Finding> out = new ArrayList<>();
        for (List<Integer> group : members) {
            if (group.size() < 2) {
                continue;
            }
            boolean harmless = group.stream().allMatch(i -> atRisk[i] == 0);
            for (int from = 0; from < group.size(); from += rule.group) {
                Finding f = part(group, from, Math.min(from + rule.group, group.size()));
                f.state = harmless ? "harmless" : "open";
                out.add(f);
            }
        }
        return out;
    }

    /** One part shows again the members of earlier parts that may still be inside. */
    private Finding part(List<Integer> group, int from, int to) {
        Finding f = new Finding();
        f.id = Ids.overlap(holds.get(group.get(from)));
        f.part = from > 0 ? from / rule.group + 1 : 0;
        long opens = Long.MAX_VALUE;
        for (int i : group.subList(from, to)) {
            opens = Math.min(opens, rule.start(holds.get(i)));
        }
        for (int i : group.subList(0, from)) {
            if (rule.end(holds.get(i)) > opens) {
                f.members.add(holds.get(i));
            }
        }
        f.carried = f.members.size();
        for (int i : group.subList(from, to)) {
            f.members.add(holds.get(i));
            f.pairs += pairs[i];
            f.certainPairs += certain[i];
            f.atRiskPairs += atRisk[i];
            f.causes.addAll(causes.get(i));
        }
        f.finish();
        return f;
    }
}
