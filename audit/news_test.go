package audit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

func step(epoch uint64) audit.Step {
	return audit.Step{At: time.Now(), Chain: "coupon", From: "normal", To: "down", Reason: tierlock.ReasonDown, Dwell: time.Minute, Epoch: epoch}
}

// steps are the epochs of the steps that heartbeats have told, by the time each was told.
func steps(t *testing.T, sink *memory) (epochs []uint64, told []time.Time) {
	t.Helper()
	for _, beat := range sink.ofType(t, audit.TypeHeartbeat) {
		for _, s := range beat.Steps {
			epochs, told = append(epochs, s.Epoch), append(told, beat.At)
		}
	}
	return epochs, told
}

// inOrder fails unless the steps from first to last were told, once each.
func inOrder(t *testing.T, epochs []uint64, first, last uint64) {
	t.Helper()
	for i, epoch := range epochs {
		if epoch != first+uint64(i) {
			t.Fatalf("told %v", epochs)
		}
	}
	if n := last - first + 1; uint64(len(epochs)) != n {
		t.Fatalf("%d steps told, want %d", len(epochs), n)
	}
}

func TestAChangeOfHealthIsToldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(2)
		l := open(t, config(powerfs.New(), sink))
		began := time.Now()
		time.Sleep(time.Second)
		l.Stepped(step(1))
		time.Sleep(time.Second)
		l.Stepped(step(2))
		l.Replaced(audit.Replaced{At: time.Now(), Store: "main", Target: "shard-2"})
		time.Sleep(time.Second)
		l.Stepped(step(3)) // the log is closed before anybody gets to it
		shut(t, l)
		epochs, told := steps(t, sink)
		inOrder(t, epochs, 1, 3)
		for i, at := range told {
			if late := at.Sub(began.Add(time.Duration(i+1) * time.Second)); late < -time.Microsecond || late > 100*time.Millisecond {
				t.Errorf("step %d told %v after it", i+1, late)
			}
		}
		replaced := 0
		for _, beat := range sink.ofType(t, audit.TypeHeartbeat) {
			replaced += len(beat.Replaced)
		}
		if replaced != 1 {
			t.Errorf("%d replacements told", replaced)
		}
		if acc := sink.account(t); !acc.Complete() {
			t.Errorf("%+v", acc)
		}
	})
}

// What cannot be written is told by a later heartbeat, the latest of it.
func TestChangesOfHealthOutliveAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newMemory(0)
		cfg := config(powerfs.New(), sink)
		cfg.Quota, cfg.Segment = 64<<10, 8<<10
		l := open(t, cfg)
		for before := uint64(0); l.Stats().Durable > before; { // ends may use the reserve, as heartbeats may
			before = l.Stats().Durable
			for i := range 20 {
				ev := grant(t, i)
				end := audit.Ended(tierlock.Grant{Chain: "coupon", Key: ev.Key, RequestID: ev.ID, Tier: ev.Tier, AcquiredAt: ev.GrantedAt}, audit.Released, audit.Unknown, time.Now())
				l.Note(&end)
			}
			_ = l.Flush(t.Context())
		}
		for epoch := range uint64(300) {
			l.Stepped(step(epoch + 1))
		}
		time.Sleep(6 * time.Second)
		sink.set(func(s *memory) { s.n = 1 })
		drain(t, l)
		time.Sleep(11 * time.Second)
		drain(t, l)
		epochs, _ := steps(t, sink)
		inOrder(t, epochs, 45, 300)
		shut(t, l)
	})
}
