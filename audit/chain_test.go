package audit_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/tierlock/tierlock/audit"
)

// stream is what a producer sends to one partition: seqs from 1 to n, hello first.
func stream(n int) (list []audit.Event) {
	for i := range uint64(n) {
		ev := audit.Event{Type: audit.TypeAcquire, Producer: "p", Epoch: 1, Seq: i + 1, Prev: i}
		if i == 0 {
			ev.Type = audit.TypeHello
		}
		list = append(list, ev)
	}
	return list
}

func follow(lists ...[]audit.Event) audit.Account {
	var c audit.Chain
	for p, list := range lists {
		for i := range list {
			c.Add(p, &list[i])
		}
	}
	return c.Accounts()[0]
}

func TestChainFindsOneMissingEventByPrevAndBySeq(t *testing.T) {
	t.Parallel()
	list := stream(10)
	acc := follow(append(list[:4:4], list[5:]...))
	if want := []audit.Range{{From: 5, To: 5}}; !reflect.DeepEqual(acc.Missing, want) {
		t.Errorf("missing %v", acc.Missing)
	}
	if want := []audit.Break{{Partition: 0, After: 4, Prev: 5, Seq: 6}}; !reflect.DeepEqual(acc.Breaks, want) {
		t.Errorf("breaks %v", acc.Breaks)
	}
	if acc.Complete() {
		t.Error("complete")
	}
}

// Seq alone cannot tell that the last events are missing; prev cannot tell what is
// missing from a partition where nothing follows. A marker in every partition shows both.
func TestChainFindsTheMissingEndOfAPartitionByTheNextMarker(t *testing.T) {
	t.Parallel()
	hello := audit.Event{Type: audit.TypeHello, Producer: "p", Epoch: 1, Seq: 1}
	beat := audit.Event{Type: audit.TypeHeartbeat, Producer: "p", Epoch: 1, Seq: 3}
	here, there := beat, beat
	here.Prev, there.Prev = 2, 1
	acc := follow([]audit.Event{hello, here}, []audit.Event{hello, there})
	if len(acc.Breaks) != 1 || acc.Breaks[0] != (audit.Break{Partition: 0, After: 1, Prev: 2, Seq: 3}) {
		t.Errorf("breaks %v", acc.Breaks)
	}
}

func TestChainTellsRepeatsFromNewEventsInAnyOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	list := stream(200)
	var c audit.Chain
	seen, fresh := map[uint64]bool{}, 0
	for range 2000 {
		ev := list[rng.IntN(len(list))]
		if c.Add(0, &ev) != !seen[ev.Seq] {
			t.Fatalf("seq %d: seen before: %v", ev.Seq, seen[ev.Seq])
		}
		if !seen[ev.Seq] {
			fresh++
		}
		seen[ev.Seq] = true
	}
	count := uint64(0)
	for _, r := range c.Accounts()[0].Seen {
		count += r.To - r.From + 1
	}
	if count != uint64(fresh) {
		t.Errorf("%d seqs in the account, %d were fresh", count, fresh)
	}
}

func TestChainTakesDeclaredRangesAsMissingButExplained(t *testing.T) {
	t.Parallel()
	list := stream(6)
	list[3].Prev = 1 // what is damaged is in nobody's chain
	gap := audit.Event{Type: audit.TypeGap, Producer: "p", Epoch: 1, Seq: 7, Prev: 6, Cause: audit.CauseDamage, From: 2, To: 3, Count: 2}
	acc := follow(append(append(list[:1:1], list[3:]...), gap))
	if len(acc.Missing)+len(acc.Breaks) != 0 || acc.Complete() || !reflect.DeepEqual(acc.Declared, []audit.Range{{From: 2, To: 3}}) {
		t.Errorf("%+v", acc)
	}
}

func TestChainStartsInTheMiddleWhereTold(t *testing.T) {
	t.Parallel()
	list := stream(9)[4:]
	var c audit.Chain
	c.Start("p", 0, 4)
	for i := range list {
		c.Add(0, &list[i])
	}
	if acc := c.Accounts()[0]; !acc.Complete() {
		t.Errorf("%+v", acc)
	}
	if acc := follow(list); acc.Complete() {
		t.Error("a missing beginning was not noticed")
	}
}
