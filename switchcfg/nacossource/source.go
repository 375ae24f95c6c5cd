package nacossource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

const (
	// fetchGap keeps fetches, with what the SDK's listener asks for, below the 5 a second
	// that the SDK allows itself for one configuration.
	fetchGap = 250 * time.Millisecond
	// limitedTries is how often in a row, fetchGap apart, the SDK must find its limit used up
	// for its own listener to be what uses it. We never ask so often.
	limitedTries = 5
	// remakeGap is how often a client may be replaced. Each replaced one stays in a global
	// map of the SDK for ever (some kilobytes).
	remakeGap = 10 * time.Second
	// hopeless is how long a client may go without an answer while its server takes
	// connections, before it is replaced: the SDK can lock itself up.
	hopeless = 30 * time.Second
)

var _ switchcfg.Pusher = (*Source)(nil)

// Source is the switch document in Nacos. Fetch and Watch may overlap; two Fetches take
// turns.
type Source struct {
	cfg  Config
	dial func(changed func()) (client, error) // makes a connected client that listens
	open func() bool                          // whether the server takes connections
	tidy func()                               // removes what dial has put on disk

	remake time.Duration // remakeGap; shorter in tests

	turn    chan struct{}  // holds one while a call into the SDK is under way, with or without a caller
	calls   sync.WaitGroup // of calls into the SDK
	changed chan struct{}  // a change was pushed
	watch   chan struct{}  // holds one while a Watch runs
	closed  chan struct{}
	close   sync.Once

	state state // whoever has the turn
}

// state belongs to the call that has the turn.
type state struct {
	client  client
	made    time.Time // when client, or the last one, was made
	asked   time.Time // the last fetch
	failing time.Time // since when fetches fail; zero: the last did not
}

// client is what is used of the SDK.
type client interface {
	get() (string, error)
	publish(text, cas string) error
	close()
}

// New checks cfg and reads its certificates. It does not connect, and starts nothing: the
// first Fetch does, so a server that is down does not hold up a start.
func New(cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	certificates, err := readTLS(cfg.TLS)
	if err != nil {
		return nil, err
	}
	sdk := &sdk{cfg: cfg, certificates: certificates}
	return newSource(cfg, sdk.dial, sdk.open, sdk.tidy), nil
}

func newSource(cfg Config, dial func(changed func()) (client, error), open func() bool, tidy func()) *Source {
	return &Source{
		cfg: cfg, dial: dial, open: open, tidy: tidy, remake: remakeGap,
		turn: make(chan struct{}, 1), changed: make(chan struct{}, 1), watch: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// Fetch asks the server. Empty text means that there is no such configuration. The SDK's
// own copies never answer. When a call does not return by ctx's end, Fetch does, and the
// next Fetch waits for that call instead of starting another.
func (s *Source) Fetch(ctx context.Context) ([]byte, error) {
	var text string
	err := s.call(ctx, func(ctx context.Context) (err error) {
		text, err = s.state.fetch(ctx, s)
		return err
	})
	if err != nil {
		return nil, err // text may be written to by a call that is still under way
	}
	return []byte(text), nil
}

// Watch calls wake after every change that the server pushed to the client that Fetch has
// made, until ctx ends. One Watch may run at a time.
func (s *Source) Watch(ctx context.Context, wake func()) error {
	select {
	case s.watch <- struct{}{}:
		defer func() { <-s.watch }()
	default:
		return errors.New("nacos: this source is being watched already")
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closed:
			return tierlock.ErrClosed
		case <-s.changed:
			wake()
		}
	}
}

// Close ends the client. Fetch and Watch answer ErrClosed from then on. The SDK's close
// may hang on a silent server: when it has not returned by ctx's end, Close returns ctx's
// error, and goroutines are left that wait for the SDK.
func (s *Source) Close(ctx context.Context) error {
	s.close.Do(func() {
		close(s.closed)
		s.calls.Go(func() {
			s.turn <- struct{}{} // kept: nobody calls into the SDK any more
			s.state.drop()
			s.tidy()
		})
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.calls.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nacos: client still closing: %w", ctx.Err())
	}
}

// call runs one call into the SDK, which knows no context, and waits for it until ctx or
// the Source ends. There is never more than one: a server that is silent for hours costs
// one goroutine.
func (s *Source) call(ctx context.Context, f func(context.Context) error) error {
	select {
	case <-s.closed:
		return tierlock.ErrClosed
	default:
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("nacos: the last call hangs: %w", ctx.Err())
	case <-s.closed:
		return tierlock.ErrClosed
	}
	out := make(chan error, 1)
	s.calls.Go(func() {
		defer func() { <-s.turn }()
		out <- guarded(func() error { return f(ctx) })
	})
	select {
	case err := <-out:
		return err
	case <-ctx.Done():
		return fmt.Errorf("nacos: no answer: %w", ctx.Err())
	case <-s.closed:
		return tierlock.ErrClosed
	}
}

// guarded turns a panic of the SDK into an error: a switch must not end its process.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("nacos: the client panicked: %v", p)
		}
	}()
	return f()
}

// hint notes a change; more than one not yet seen is one.
func (s *Source) hint() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// fetch asks once, with a client that is made or replaced as needed.
func (t *state) fetch(ctx context.Context, s *Source) (string, error) {
	if !pause(ctx, fetchGap-time.Since(t.asked)) {
		return "", ctx.Err()
	}
	t.asked = time.Now()
	if err := t.connect(s); err != nil {
		return "", err
	}
	text, err := t.client.get()
	for tries := 1; errors.Is(err, errLimited) && tries < limitedTries && pause(ctx, fetchGap); tries++ {
		text, err = t.client.get()
	}
	if err == nil {
		t.failing = time.Time{}
		return text, nil
	}
	if t.failing.IsZero() {
		t.failing = time.Now()
	}
	// Refused (a changed key, a right withdrawn): the SDK's listener would repeat its
	// question thousands of times a second, and the client log in again after hours only. It
	// then leaves nothing of what the SDK allows, so we are limited where we would be refused.
	refused := errors.Is(err, errRefused) || errors.Is(err, errLimited)
	wedged := time.Since(t.failing) > hopeless && time.Since(t.made) > s.remake && s.open()
	if refused || wedged {
		s.cfg.Logger.Warn("nacos client dropped", "refused", refused, "error", err)
		t.drop()
	}
	return "", err
}

// connect makes a client if there is none.
func (t *state) connect(s *Source) error {
	if t.client != nil {
		return nil
	}
	if wait := s.remake - time.Since(t.made); !t.made.IsZero() && wait > 0 {
		return fmt.Errorf("nacos: the client was dropped; a new one in %v", wait.Round(time.Second))
	}
	t.made = time.Now()
	c, err := s.dial(s.hint)
	if err != nil {
		return err
	}
	t.client = c
	return nil
}

func (t *state) drop() {
	if t.client != nil {
		_ = guarded(func() error { t.client.close(); return nil })
		t.client = nil
	}
}

// pause says whether d has passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
