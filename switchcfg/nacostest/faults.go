package nacostest

import (
	"context"
	"sync"
)

// faults are the knobs. All are off at the start.
type faults struct {
	mu      sync.Mutex
	thawed  chan struct{} // closed while the server answers; guarded by mu
	refuses bool          // guarded by mu
	losing  bool          // guarded by mu
	old     int           // answers with the former text that are still to come; guarded by mu
	queries int           // guarded by mu
	listens int           // guarded by mu
}

// Freeze makes the server silent: it takes connections and questions, and answers nothing.
func (s *Server) Freeze() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	select {
	case <-s.faults.thawed:
		s.faults.thawed = make(chan struct{})
	default: // it is already
	}
}

// Thaw ends Freeze: what was asked meanwhile, by whoever still waits, is answered.
func (s *Server) Thaw() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	select {
	case <-s.faults.thawed:
	default:
		close(s.faults.thawed)
	}
}

// Refuse makes whatever reads or changes a text be answered with 403, as after a right was
// withdrawn, until it is turned off. Listens, which tell no text, are answered as ever.
func (s *Server) Refuse(on bool) { s.faults.set(func(f *faults) { f.refuses = on }) }

// LosePushes keeps changes from being told, until it is turned off. What was lost is not
// told later.
func (s *Server) LosePushes(on bool) { s.faults.set(func(f *faults) { f.losing = on }) }

// AnswerOld makes the next n queries be answered with what was there before the last
// change, as by a member of a cluster that is behind: answers out of order.
func (s *Server) AnswerOld(n int) { s.faults.set(func(f *faults) { f.old = n }) }

// Queries counts questions for a text since the start, refused ones included.
func (s *Server) Queries() int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return s.faults.queries
}

// Listens counts batch listens since the start, refused ones included.
func (s *Server) Listens() int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return s.faults.listens
}

func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) losesPushes() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.losing
}

// silent waits while the server is frozen; false when ctx ended first.
func (f *faults) silent(ctx context.Context) bool {
	for {
		f.mu.Lock()
		thawed := f.thawed
		f.mu.Unlock()
		select {
		case <-thawed:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// asked counts a question of a type; refused says that 403 is the answer, old that the
// former text is.
func (f *faults) asked(kind string) (refused, old bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch kind {
	case configQuery:
		f.queries++
		if !f.refuses && f.old > 0 {
			f.old--
			return false, true
		}
	case configListen:
		f.listens++
	}
	return f.refuses, false
}
