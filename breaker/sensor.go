package breaker

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The errors of [Sensor.Enter]: why an operation may not start. Besides them there is the
// context's own. What a caller is told is the gateway's: it knows the route by which the
// operation came here.
var (
	ErrOpen    = errors.New("breaker: open")
	ErrFull    = errors.New("breaker: no slot on the wire in time")
	ErrTrickle = errors.New("breaker: store is slow, not among the few that try")
	ErrShare   = errors.New("breaker: the share of the wire is taken")
)

// Gate is what an operation must pass before it gets a slot.
type Gate uint8

// The gates.
const (
	GateOpen    Gate = iota // nothing but a free slot
	GateTrickle             // one of two a second for the whole target
	GateRamp                // up to Ask.Share of the wire out, of a weak chain's of its part
	GateUnder               // less than that
)

// Ask is one operation that wants to start.
type Ask struct {
	// Now is when it asks, for whoever has just looked at the clock; zero: this moment.
	Now time.Time
	// Deadline of the attempt: the longest wait for a slot, too. Zero: no wait.
	Deadline time.Time
	Strong   bool // may use all of the wire
	// Forced passes whatever the breaker says: somebody wants the target itself asked. It
	// needs a slot like all others, and what comes of it is evidence like theirs.
	Forced bool
	Gate   Gate
	Share  float64 // GateRamp, GateUnder: above 0, at most 1; one operation may always be out
	Tally  *Tally  // counts the operation while it is out; nil: nobody does
}

func (a *Ask) now() time.Time {
	if a.Now.IsZero() {
		return time.Now()
	}
	return a.Now
}

// Sensor watches one target for all chains that use it. All methods may be called at
// once. One mutex guards all of it and is held for some tens of nanoseconds: never over
// I/O, a wait or a callback.
type Sensor struct {
	cfg  Config
	wake chan struct{} // one token: the probe loop should look again
	quit chan struct{} // closed by Close
	tail sync.WaitGroup

	mu      sync.Mutex // guards everything below
	wire    wire
	fuse    fuse
	health  health
	silence time.Duration // Config.Silence, or what Tolerate said since
	trickle time.Time     // when the next trickle may pass
	idle    []*ticket
	closed  bool
}

// New returns the sensor of one target, all well. It starts nothing; see [Sensor.Run]. A
// bad Config is refused with every fault at once.
func New(cfg Config) (*Sensor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Sensor{
		cfg:  cfg,
		wake: make(chan struct{}, 1),
		quit: make(chan struct{}),
		wire: newWire(cfg.Wire, cfg.Reserved),

		silence: cfg.Silence,
	}
	s.fuse.init(cfg)
	return s, nil
}

// Enter lets an operation start, or says why not: at once if the breaker or the gate is
// shut, at ask.Deadline or the end of ctx if no slot gets free before. Slots go out in
// the order of asking, but for weak asks while the weak part is full.
func (s *Sensor) Enter(ctx context.Context, ask Ask) (Pass, error) {
	now := ask.now()
	s.mu.Lock()
	if err := s.admitLocked(now, ask); err != nil {
		s.mu.Unlock()
		return Pass{}, err
	}
	if s.wire.take(!ask.Strong) {
		p, err := s.startLocked(now, ask)
		s.mu.Unlock()
		return p, err
	}
	if !now.Before(ask.Deadline) {
		s.mu.Unlock()
		return Pass{}, ErrFull
	}
	w := s.wire.queue(!ask.Strong, ask.Forced)
	s.mu.Unlock()
	return s.await(ctx, ask, w)
}

// admitLocked asks the breaker and the gate. A trickle's token is gone once taken, even
// when no slot gets free in time.
func (s *Sensor) admitLocked(now time.Time, ask Ask) error {
	if !ask.Forced && !s.fuse.mayTry(now) {
		return ErrOpen
	}
	switch ask.Gate {
	case GateTrickle:
		if now.Before(s.trickle) {
			return ErrTrickle
		}
		s.trickle = now.Add(trickleEvery)
	case GateRamp, GateUnder:
		if !s.wire.shares(!ask.Strong, ask.Gate == GateUnder, ask.Share) {
			return ErrShare
		}
	}
	return nil
}

// startLocked turns a slot already taken into a pass. The breaker has the last word: it
// may have opened while the slot was waited for.
func (s *Sensor) startLocked(now time.Time, ask Ask) (Pass, error) {
	var done func(error)
	if !ask.Forced && !s.fuse.closed() {
		var ok bool
		if done, ok = s.fuse.try(now); !ok {
			s.wire.give(!ask.Strong)
			return Pass{}, ErrOpen
		}
	}
	t := s.ticketLocked(ask.Tally)
	t.start, t.weak, t.era = now, !ask.Strong, s.fuse.era
	if done != nil {
		s.watchLocked(t, done, ask.Deadline)
	}
	return Pass{s, t, t.turn}, nil
}

// await is the wait for a slot. Whoever hands it over has counted it as taken, so that
// nobody can slip in between, and so a slot that comes together with the deadline or the
// caller's cancel must be given back here.
func (s *Sensor) await(ctx context.Context, ask Ask, w *waiter) (Pass, error) {
	w.timer.Reset(time.Until(ask.Deadline))
	var err error
	select {
	case <-w.ready:
	case <-w.timer.C:
		err = ErrFull
	case <-ctx.Done():
		err = ctx.Err()
	}

	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := s.wire.leave(w)
	switch {
	case err == nil && !granted:
		return Pass{}, ErrOpen
	case err == nil && now.Before(ask.Deadline):
		return s.startLocked(now, ask)
	case granted:
		s.wire.give(!ask.Strong)
	}
	if err == nil {
		err = ErrFull
	}
	return Pass{}, err
}

// Count notes an operation that is never refused: release, renew, lookup. It takes a slot
// even if none is free, and neither breaker nor gate is asked. Of ask only Now, Strong and
// Tally matter.
func (s *Sensor) Count(ask Ask) Pass {
	now := ask.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire.add(!ask.Strong, 1)
	t := s.ticketLocked(ask.Tally)
	t.start, t.weak, t.era = now, !ask.Strong, s.fuse.era
	return Pass{s, t, t.turn}
}

// Tolerate changes Config.Failures and Config.Silence, both above 0, from the next fault on. A
// breaker that is open stays so.
func (s *Sensor) Tolerate(failures int, silence time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fuse.limit, s.silence = failures, silence
}

// Limit is how many operations may be out at once.
func (s *Sensor) Limit() int { return s.cfg.Wire }

// Out is what occupies the wire now, Config.Loose included; more than Limit when
// operations that are never refused come on top.
func (s *Sensor) Out() int {
	loose := s.cfg.Loose()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire.out + loose
}

// Close ends what waits for abandoned operations, and returns when it has ended; their
// slots are free from then on. Call it after Run has returned. A second call does nothing.
func (s *Sensor) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.quit)
	}
	s.mu.Unlock()
	s.tail.Wait()
}
