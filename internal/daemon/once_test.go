package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// onceBeforeAnyDaemon: the job is the first that this Kafka sees.
func onceBeforeAnyDaemon(t *testing.T, redis, kafka string) {
	report, log := reconciled(t, config(t, t.TempDir(), redis, kafka), false)
	if report.Records != 0 || report.Findings != 0 {
		t.Errorf("%+v", report)
	}
	if !strings.Contains(log.String(), "nothing to read") || !strings.Contains(log.String(), "topic=tierlock.events.v1") {
		t.Errorf("it does not say that there was nothing:\n%s", log)
	}
}

func TestOnceEndsWhereNoTopicIs(t *testing.T) {
	redis, kafka := inProcess(t)
	onceBeforeAnyDaemon(t, redis, kafka)
}

func TestOnceEndsWhereNoTopicIsOnRealServers(t *testing.T) {
	t.Parallel()
	servers.Need(t, "Redis and Kafka")
	onceBeforeAnyDaemon(t, servers.Redis(t).Addr(), servers.Kafka(t).Addr())
}

func TestOnceGivesUpOnAKafkaThatIsAway(t *testing.T) {
	redis, _ := inProcess(t)
	r, err := OpenReconciler(config(t, t.TempDir(), redis, nobody(t)), "v0", slog.New(slog.DiscardHandler), false, true)
	if err != nil {
		t.Fatal(err)
	}
	if r.patience != oncePatience {
		t.Errorf("patience %s", r.patience)
	}
	r.patience = 50 * time.Millisecond
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "kafka was not reached within 50ms") {
		t.Errorf("run: %v", err)
	}
}

// TestOnceGivesUpOnAGroupThatOthersHold: no partition is left for it.
func TestOnceGivesUpOnAGroupThatOthersHold(t *testing.T) {
	nobodyAsked := struct{ reconcile.Source }{} // a question would panic
	o := &readOnce{Source: nobodyAsked, since: time.Now().Add(-2 * time.Second), patience: time.Second}
	if _, err := o.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "no partition was assigned within 1s") {
		t.Errorf("next: %v", err)
	}
}

// handed is a source that hands out batches, and nothing more after them.
type handed struct {
	reconcile.Source
	batches []reconcile.Batch
}

func (h *handed) Next(context.Context) (reconcile.Batch, error) {
	b := h.batches[0] // one too many would panic
	h.batches = h.batches[1:]
	return b, nil
}

// TestOnceReadsOnAfterARebalance: whoever loses its partitions in the middle, as when a
// heartbeat was late, has not read them.
func TestOnceReadsOnAfterARebalance(t *testing.T) {
	both := []reconcile.Mark{{Partition: 0}, {Partition: 1}}
	source := &handed{batches: []reconcile.Batch{
		{Assigned: both},
		{CaughtUp: []int{0}},
		{Revoked: []int{0, 1}},
		{Assigned: both},
		{CaughtUp: []int{1}},
		{CaughtUp: []int{0}},
	}}
	o := &readOnce{Source: source, patience: time.Minute, behind: map[int]bool{}}
	for left := len(source.batches); left > 0; left-- {
		if _, err := o.Next(t.Context()); err != nil {
			t.Fatalf("%v with %d batches left", err, left)
		}
	}
	if _, err := o.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("all is read: %v", err)
	}
	source.batches = []reconcile.Batch{{Revoked: []int{0, 1}}}
	o.behind[0] = true // rewound
	_, _ = o.Next(t.Context())
	o.since = time.Now().Add(-2 * time.Minute)
	if _, err := o.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "no partition was assigned within 1m") {
		t.Errorf("nobody gave them back: %v", err)
	}
}

// atWork is a source that hears that its job is at work.
type atWork struct {
	handed
	signs int
}

func (a *atWork) Working() { a.signs++ }

// TestOncePassesOnThatItsJobIsAtWork: else a member with much to do would be taken for stuck.
func TestOncePassesOnThatItsJobIsAtWork(t *testing.T) {
	source := &atWork{}
	var o reconcile.Source = &readOnce{Source: source}
	worker, is := o.(reconcile.Worker)
	if !is {
		t.Fatal("it hears nothing")
	}
	if worker.Working(); source.signs != 1 {
		t.Errorf("%d signs", source.signs)
	}
	(&readOnce{Source: &source.handed}).Working() // one that does not ask
}

// TestASecondOnceFindsWhatCameSince: a run that has ended has judged all there was, so all
// that comes later is late, and its partitions are read once more.
func TestASecondOnceFindsWhatCameSince(t *testing.T) {
	redis, kafka := inProcess(t)
	dir := t.TempDir()
	c := config(t, dir, redis, kafka)
	overlap(t, dir, redis, kafka)
	if r, _ := reconciled(t, c, false); r.Findings != 1 {
		t.Fatalf("first run: %d findings", r.Findings)
	}
	overlap(t, dir, redis, kafka)
	r, _ := reconciled(t, c, false)
	if r.Findings == 0 || r.Rereads == 0 || r.Holds != 4 { // close in time, the two may be one group
		t.Errorf("second run: %d findings of %d holds, %d rereads; want the four of both overlaps", r.Findings, r.Holds, r.Rereads)
	}
}
