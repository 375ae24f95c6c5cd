package gateway_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/switchcfg"
)

// gate is a sink that takes nothing until it is opened.
type gate struct {
	open chan struct{}
	once sync.Once
}

func (*gate) Partitions(context.Context) (int, error) { return 1, nil }

func (g *gate) Send(ctx context.Context, msgs []audit.Message) []error {
	errs := make([]error, len(msgs))
	select {
	case <-g.open:
	case <-ctx.Done():
		for i := range errs {
			errs[i] = ctx.Err()
		}
	}
	return errs
}

func (g *gate) opens() { g.once.Do(func() { close(g.open) }) }

// A real log whose quota is used up, and what each policy makes of it: refused at once,
// refused at the attempt's end or granted as soon as there is room, granted with a count.
func TestARealLogThatIsFull(t *testing.T) {
	sink := &gate{open: make(chan struct{})}
	rec, err := audit.Open(audit.Config{Dir: t.TempDir(), Producer: "full", Sink: sink, Segment: 4 << 10, Quota: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	policy := func(full audit.OnFull) gateway.Policy {
		p := weak()
		p.Audit.OnFull, p.Attempt = full, time.Second // in which the forwarder makes room
		return p
	}
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"reject": policy(audit.Reject), "block": policy(audit.Block), "shed": policy(audit.Shed)},
		Stores: map[string]tierlock.Backend{"main": gatewaytest.NewStore()}, Audit: rec,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sink.opens()
		_ = g.Close(context.Background())
		_ = rec.Close(context.Background())
	})
	if err := g.Apply(bypassOf("reject", "block", "shed")); err != nil {
		t.Fatal(err)
	}
	rejecting := chain(t, g, "reject")
	for i := 0; ; i++ {
		if _, err = rejecting.TryLock(t.Context(), strconv.Itoa(i)); err != nil {
			break
		}
		if i > 10_000 {
			t.Fatal("64 KiB took ten thousand events")
		}
	}
	if !errors.Is(err, audit.ErrFull) || verdict(t, err).Reason != tierlock.ReasonUnrecorded {
		t.Errorf("reject: %v", err)
	}

	began := time.Now()
	_, err = chain(t, g, "block").TryLock(t.Context(), "a")
	if took := time.Since(began); !errors.Is(err, tierlock.ErrSystem) || took < 990*time.Millisecond || took > 2*time.Second {
		t.Errorf("block: %v after %v, want unrecorded at the end of the attempt", err, took)
	}
	l, err := chain(t, g, "shed").TryLock(t.Context(), "a")
	if err != nil || rec.Stats().Shed != 1 {
		t.Errorf("shed: %v, %d counted", err, rec.Stats().Shed)
	}
	_ = l.Unlock(t.Context())

	began = time.Now()
	time.AfterFunc(50*time.Millisecond, sink.opens)
	if l, err = chain(t, g, "block").TryLock(t.Context(), "a"); err != nil {
		t.Errorf("block, with a sink that takes events after 50 ms: %v", err)
	}
	t.Logf("blocked for %v", time.Since(began))
	_ = l.Unlock(t.Context())
	if live := g.Status().Chains[0].Live; live != 0 { // chain block
		t.Errorf("%d locks of the chain block left", live)
	}
}

// bypassOf orders chains into bypass for an hour.
func bypassOf(chains ...string) switchcfg.Document {
	doc := switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{}}
	for _, name := range chains {
		doc.Chains[name] = switchcfg.Directive{Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "store under attack", By: "oncall"}
	}
	return doc
}
