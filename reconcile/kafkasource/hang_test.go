package kafkasource

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tierlock/tierlock/internal/way"
	"github.com/tierlock/tierlock/reconcile"
)

// elsewhere is a listener that says another address than its own.
type elsewhere struct {
	net.Listener
	addr addr
}

func (l elsewhere) Addr() net.Addr { return l.addr }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// behind is a broker that is reached over a way that can be broken, by its metadata too.
func behind(t *testing.T) (*kfake.Cluster, *way.Way) {
	t.Helper()
	var w *way.Way
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, EventsTopic), kfake.SeedTopics(1, DeadTopic, FindingsTopic),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
			if err != nil {
				return nil, err
			}
			w, err = way.To(l.Addr().String())
			if err != nil {
				return nil, err
			}
			return elsewhere{l, addr(w.Addr())}, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); c.Close() })
	return c, w
}

// A broker that answers nothing, from the first question or from one moment to the next,
// keeps neither a finding's writer nor a member of the group: a Put is an error after its
// timeout, and both close.
func TestABrokerThatHangsHoldsUpNoClose(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"from the first question": false, "in the middle": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, w := behind(t)
			findings, err := NewFindings(Config{Brokers: c.ListenAddrs(), Timeout: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			s, got := source(t, c.ListenAddrs(), func(cfg *Config) { cfg.Timeout = 500 * time.Millisecond }), &seen{}
			f := reconcile.Finding{ID: "f1", Kind: reconcile.KindGap, State: reconcile.StateOpen}
			if before {
				if err := findings.Put(t.Context(), f); err != nil {
					t.Fatal(err)
				}
				got.until(t, s, func() bool { return len(got.assigned) == 2 })
			}
			w.Become(way.BlackHole)
			if !before {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if _, err := s.Next(ctx); err == nil {
					t.Error("a batch out of a black hole")
				}
				cancel()
			}
			f.Revision = 2
			if err := findings.Put(t.Context(), f); err == nil {
				t.Error("a finding is safe in a black hole")
			}
			for what, end := range map[string]func(context.Context) error{
				"the writer": func(context.Context) error { return findings.Close() }, "the member": s.Close,
			} {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				if err := end(ctx); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				cancel()
				t.Logf("%s closed in %v", what, time.Since(began).Round(time.Millisecond))
			}
		})
	}
}
