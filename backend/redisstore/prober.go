package redisstore

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// probeConns is how many connections probes may have: each lasts for two probes at most when
// it meets a silent server, and the next one must find a place.
const probeConns = 4

// warmFor is how long the making of a standing connection may take.
const warmFor = 2 * time.Second

// hop is what an answer may take from the goroutine that has it to the one that waits.
const hop = 5 * time.Millisecond

// prober asks one server for signs of life, on connections that nothing else uses.
//
// A connection is worth more than a probe. On a server whose replies take 600 ms, whoever makes a
// new one for each probe spends the probe's second on greetings, and takes a slow server for
// one that is down. So
//
//   - one stands ready since the first connection that grants was made, and is made anew when
//     those are;
//   - a probe that runs out of time goes on behind its caller for as long again, and leaves
//     its connection to the next one;
//   - a probe that has to make its connection is answered by the greeting where that took so
//     long that the question after it would come too late.
//
// Connections are greeted with no more than what go-redis asks of a new one: the scripts are
// on the server already, and who the server is shows on the connections that grant.
type prober struct {
	client *redis.Client
	ending context.Context //nolint:containedctx // ends with the prober
	end    context.CancelFunc

	mu      sync.Mutex // guards closed and warming, and work.Go against work.Wait
	closed  bool
	warming bool
	work    sync.WaitGroup
}

func newProber(cfg *Config, addr string, dials *dialer) *prober {
	o := options(cfg, addr, dials, probeConns)
	o.ConnMaxIdleTime = -1        // the one that stands ready is used when something is wrong, and may be old by then
	o.PoolTimeout = socketTimeout // a probe ends by its own deadline, and a full pool of probes is no saturated server
	o.OnConnect = func(ctx context.Context, _ *redis.Conn) error {
		if greeted, ok := ctx.Value(greetedKey{}).(chan time.Time); ok {
			select {
			case greeted <- time.Now():
			default:
			}
		}
		return nil
	}
	p := &prober{client: redis.NewClient(o)}
	p.ending, p.end = context.WithCancel(context.Background())
	return p
}

// greetedKey is where a probe's context has the channel that hears when its connection was
// greeted.
type greetedKey struct{}

// start runs f beside its caller, unless the prober is closed.
func (p *prober) start(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.work.Go(f)
	return true
}

// ask puts a question, which may go on for twice the caller's time, and returns by q's
// deadline.
func (p *prober) ask(q *question, put func(ctx context.Context) error) error {
	span := q.deadline.Sub(q.asked)
	greeted, answered := make(chan time.Time, 1), make(chan error, 1)
	ctx := context.WithValue(context.WithoutCancel(q.caller), greetedKey{}, greeted)
	ctx, cancel := context.WithDeadline(ctx, q.deadline.Add(span))
	stop := context.AfterFunc(p.ending, cancel)
	end := func() { stop(); cancel() }
	if !p.start(func() { defer end(); answered <- put(ctx) }) {
		end()
		return &tierlock.Fault{Reason: tierlock.ReasonBroken, Err: net.ErrClosed}
	}
	late := time.NewTimer(time.Until(q.deadline) + hop)
	defer late.Stop()
	for {
		select {
		case err := <-answered:
			return err
		case at := <-greeted:
			// The question takes as long as the greeting, or a bit more.
			if took := at.Sub(q.asked); took+took/2 > q.deadline.Sub(at) {
				return nil
			}
		case <-q.caller.Done():
			return fault(q.caller.Err())
		case <-late.C:
			select {
			case err := <-answered: // a busy machine comes to both at once
				return err
			default:
			}
			return &tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true, Err: context.DeadlineExceeded}
		}
	}
}

// warm makes a connection that stands ready, if there is none. Its errors are the next
// probe's to meet.
func (p *prober) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.warming || p.client.PoolStats().TotalConns > 0 {
		return
	}
	p.warming = true
	p.work.Go(func() {
		ctx, cancel := context.WithTimeout(p.ending, warmFor)
		defer cancel()
		_ = p.client.Ping(ctx).Err()
		p.mu.Lock()
		p.warming = false
		p.mu.Unlock()
	})
}

// close ends the connections and waits for what was asked on them.
func (p *prober) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	err := p.client.Close()
	p.work.Wait()
	return err
}
