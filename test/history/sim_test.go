package history

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The simulated lock and register are right, but for the defect that is planted.
type defect string

const (
	sound          defect = "none"
	grantsTwice    defect = "now and then it grants a key that is held"
	expiresEarly   defect = "its clock runs twice as fast"
	releasesAnyone defect = "release compares no holder"
	revives        defect = "renew brings back what had expired"
	repeatsToken   defect = "now and then a token is the last one again"
	lowersToken    defect = "after a while tokens begin anew"
	leavesOrphans  defect = "what arrives after its caller left is granted"
	answersLate    defect = "now and then an answer takes 300 ms"
	checksAtWrite  defect = "the guard looks at writes only"
	forgetsMark    defect = "now and then the guard forgets its mark"
	forgets        defect = "the store forgets, and for a ttl grants nothing" // none: a sound hold-off
	grantsAtOnce   defect = "the store forgets, and grants at once"

	// In real runs only.
	countsFromTold defect = "V counts from the answer, and answers are slow"
	retriesFresh   defect = "a lost reply is asked for again under a fresh id"
	releasesOthers defect = "who is refused gives back under the holder's id"
)

const (
	simAttempt = 200 * time.Millisecond
	simTTL     = time.Second
	simClients = 6
)

// sim is the store, the register and the record of who asked them what.
type sim struct {
	defect defect
	rand   *rand.Rand // guarded by mu, as all below
	mu     sync.Mutex
	start  time.Time
	holder map[string]string
	until  map[string]time.Time
	token  uint64
	grants int
	value  int64
	mark   uint64
	closed time.Time // till when nothing is granted
	ops    []Op
}

// simulate runs clients on two keys for some seconds of virtual time and returns what they
// recorded.
func simulate(t *testing.T, seed uint64, d defect) *History {
	t.Helper()
	var h *History
	synctest.Test(t, func(*testing.T) {
		s := &sim{
			defect: d, rand: rand.New(rand.NewPCG(seed, 1)), start: time.Now(),
			holder: map[string]string{}, until: map[string]time.Time{}, token: 1000,
		}
		var all sync.WaitGroup
		for i := range simClients {
			all.Go(func() { s.client(i) })
		}
		all.Wait()
		h = &History{Ops: Merge(s.ops), Attempt: simAttempt, Last: map[string]int64{"k0": s.value}}
		at := s.now()
		for key, holder := range s.holder { // whoever still stands there, seconds after the last client left
			h.Stands = append(h.Stands, Stand{key, holder, at + int64(5*time.Second)})
		}
	})
	return h
}

func (s *sim) now() int64 { return int64(time.Since(s.start)) + 1 }

func (s *sim) chance(percent int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(100) < percent
}

func (s *sim) travel() {
	s.mu.Lock()
	d := time.Duration(s.rand.IntN(3000)) * time.Microsecond
	s.mu.Unlock()
	time.Sleep(d)
}

// ask records one question: the way there, what happens there, the way back.
func (s *sim) ask(op Op, there func(*Op)) Op {
	op.Call = s.now()
	s.travel()
	lost := s.chance(3) // the reply of some is lost
	if op.Kind == Acquire && s.defect == leavesOrphans && lost {
		time.Sleep(simAttempt)
	}
	s.mu.Lock()
	there(&op)
	s.mu.Unlock()
	s.travel()
	if s.defect == answersLate && s.chance(1) {
		time.Sleep(300 * time.Millisecond)
	}
	if lost && op.Kind != Read && op.Kind != Write {
		op.Outcome, op.Reason, op.Token = "", "attempt_timeout", 0
		time.Sleep(max(0, simAttempt-time.Duration(s.now()-op.Call)))
		if op.Kind == Acquire && s.defect != leavesOrphans {
			s.mu.Lock()
			s.free(op.Key, op.Holder) // settled
			s.mu.Unlock()
		}
	}
	op.Return = s.now()
	s.mu.Lock()
	op.ID = len(s.ops)
	s.ops = append(s.ops, op)
	s.mu.Unlock()
	return op
}

func (s *sim) free(key, holder string) bool {
	if s.holder[key] != holder && s.defect != releasesAnyone || s.holder[key] == "" {
		return false
	}
	delete(s.holder, key)
	return true
}

// present is who holds key now.
func (s *sim) present(key string) string {
	if s.holder[key] != "" && !time.Now().Before(s.until[key]) && s.defect != leavesOrphans {
		delete(s.holder, key)
	}
	return s.holder[key]
}

func (s *sim) ttl() time.Duration {
	if s.defect == expiresEarly {
		return simTTL / 2
	}
	return simTTL
}

func (s *sim) acquire(op *Op) {
	s.grants++
	if (s.defect == forgets || s.defect == grantsAtOnce) && s.grants%50 == 0 {
		clear(s.holder)
		if s.defect == forgets {
			s.closed = time.Now().Add(simTTL)
		}
	}
	if time.Now().Before(s.closed) {
		op.Outcome, op.Reason = Unsent, "recovering"
		return
	}
	now := s.present(op.Key)
	if now != "" && (s.defect != grantsTwice || s.grants%20 != 0) {
		op.Outcome = Held
		return
	}
	s.token++
	switch {
	case s.defect == repeatsToken && s.grants%20 == 0:
		s.token--
	case s.defect == lowersToken && s.token == 1040:
		s.token = 1
	}
	s.holder[op.Key], s.until[op.Key] = op.Holder, time.Now().Add(s.ttl())
	op.Outcome, op.Token, op.Tier = Granted, s.token, shared
}

func (s *sim) client(n int) {
	for i := range 200 {
		key := fmt.Sprint("k", i%2)
		base := Op{Process: n, Key: key, Holder: fmt.Sprintf("p%d-%d", n, i), TTL: int64(simTTL)}
		base.Kind = Acquire
		grant := s.ask(base, s.acquire)
		if grant.Outcome != Granted {
			time.Sleep(time.Duration(5+n) * time.Millisecond)
			continue
		}
		s.hold(base, grant, i)
	}
}

// hold works under the lock and gives it back, now and then too late.
func (s *sim) hold(op, grant Op, i int) {
	end := grant.Call + int64(simTTL) - int64(62*time.Millisecond) // V
	if op.Key == "k0" {
		s.increment(op, grant.Token)
	} else {
		s.travel()
	}
	if s.chance(25) {
		op.Kind = Renew
		renewed := s.ask(op, func(op *Op) {
			op.Outcome = Lost
			if s.present(op.Key) == op.Holder || s.defect == revives && s.holder[op.Key] == "" {
				s.holder[op.Key], s.until[op.Key], op.Outcome = op.Holder, time.Now().Add(s.ttl()), Kept
			}
		})
		if renewed.Outcome == Kept {
			end = renewed.Call + int64(simTTL) - int64(62*time.Millisecond)
		}
	}
	if s.defect == expiresEarly && s.chance(30) {
		time.Sleep(simTTL * 7 / 10)
	}
	line := op
	line.Kind, line.Tier, line.Call, line.Return = Hold, shared, grant.Return, min(s.now(), end)
	s.mu.Lock()
	line.ID = len(s.ops)
	s.ops = append(s.ops, line)
	s.mu.Unlock()
	op.Kind = Release
	s.ask(op, func(op *Op) {
		if s.present(op.Key) == op.Holder || s.defect == releasesAnyone {
			if s.free(op.Key, op.Holder) {
				op.Outcome = Released
			}
		}
	})
}

// increment reads, thinks — now and then for longer than the lock lasts — and writes.
func (s *sim) increment(op Op, token uint64) {
	op.Token = token
	enter := func(op *Op) bool {
		if op.Kind == Read && s.defect == checksAtWrite {
			return true
		}
		if s.defect == forgetsMark && s.rand.IntN(2) == 0 {
			s.mark = 0
		}
		if op.Token < s.mark {
			op.Outcome = Refused
			return false
		}
		s.mark, op.Outcome = op.Token, Accepted
		return true
	}
	op.Kind = Read
	read := s.ask(op, func(op *Op) {
		if enter(op) {
			op.Outcome, op.Value = Accepted, s.value
		}
	})
	if read.Outcome != Accepted {
		return
	}
	if s.chance(40) {
		time.Sleep(simTTL + 10*time.Millisecond)
	}
	op.Kind, op.Value = Write, read.Value+1
	s.ask(op, func(op *Op) {
		if enter(op) {
			s.value = op.Value
		}
	})
}
