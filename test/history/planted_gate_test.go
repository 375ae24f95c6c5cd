package history

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock/guard"
)

// plan is how a defect comes to show in a real run.
type plan struct {
	finders []string
	think   int           // one increment in so many thinks ...
	thinks  time.Duration // ... for so long
	forgets bool          // the store is emptied again and again
}

const seldom = 1 << 20

var plans = map[defect]plan{
	grantsTwice:    {[]string{"overlaps", "locks"}, 8, shortTTL, false},
	countsFromTold: {[]string{"overlaps"}, 1, shortTTL, false},
	releasesOthers: {[]string{"overlaps", "locks"}, 1, 100 * time.Millisecond, false},
	retriesFresh:   {[]string{"orphans", "locks"}, seldom, 0, false},
	leavesOrphans:  {[]string{"orphans"}, seldom, 0, false},
	repeatsToken:   {[]string{"tokens"}, 8, shortTTL, false},
	answersLate:    {[]string{"late"}, 8, shortTTL, false},
	checksAtWrite:  {[]string{"updates"}, 1, 200 * time.Millisecond, true},
	forgetsMark:    {[]string{"registers"}, 1, 200 * time.Millisecond, true},
}

// The mutation gate on the real thing: each defect, planted between the gateway and a real
// Redis or into the use of the guard, is found by its checks.
func TestPlantedDefectsAreFoundInRealHistories(t *testing.T) {
	t.Parallel()
	for d, p := range plans {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			found := map[string]bool{}
			for run := 1; len(found) < len(p.finders); run++ {
				if run > 20 {
					t.Fatalf("of %v only %v found it, in %d runs", p.finders, found, run-1)
				}
				h := p.run(t, d)
				for _, finder := range p.finders {
					faults := Judge(h, finder)
					if len(faults) > 0 && !found[finder] {
						found[finder] = true
						t.Logf("run %d: %d faults, of them: %s", run, len(faults), faults[0])
					}
				}
			}
		})
	}
}

// And nothing is found without.
func TestASoundRunIsFaultedByNoCheck(t *testing.T) {
	t.Parallel()
	r := newRun(t, guard.SQLite)
	r.start(2, sound)
	wait(time.Second)
	r.judge(r.end(), WhileItRemembers...)
}

func (p plan) run(t *testing.T, d defect) *History {
	t.Helper()
	r := newRun(t, guard.SQLite)
	r.think, r.thinks = p.think, p.thinks
	r.start(2, d)
	if p.forgets {
		r.empty(10) // holders meet
	}
	wait(2 * time.Second)
	return r.end()
}

// A store that is killed under its holders and comes back without memory: with lock_delay no two
// holders meet, without it they do.
func TestSoakAHoldOffOnARealRedis(t *testing.T) {
	t.Parallel()
	for d, meet := range map[defect]bool{forgets: false, grantsAtOnce: true} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			if !meet && rounds() == 1 {
				t.Skip("left out: waits lock_delay out twice; run make soak")
			}
			for run := 1; ; run++ {
				faults := Overlaps(killedUnderHolders(t, d))
				if !meet && len(faults) > 0 {
					t.Errorf("%d overlaps, of them %s", len(faults), faults[0])
				}
				if (len(faults) > 0) == meet {
					return
				}
				if run == 5 {
					t.Fatalf("no two met in %d runs", run)
				}
			}
		})
	}
}

func killedUnderHolders(t *testing.T, d defect) *History {
	t.Helper()
	r := newRun(t, guard.SQLite)
	r.think, r.thinks, r.delay = 1, 3*time.Second, 5*time.Second
	r.start(2, d)
	// Not for a moment only, till he sees that the store is young.
	holds := func() bool {
		first := r.standing()
		wait(200 * time.Millisecond)
		for key, holder := range r.standing() {
			if first[key] == holder {
				return true
			}
		}
		return false
	}
	r.eventually("somebody holds", holds)
	before := r.clock.now()
	r.server.Kill()
	r.server.Restart()
	r.eventually("somebody holds again", holds)
	h := r.end()
	held, again := 0, 0
	for _, op := range h.of("", Acquire) {
		switch {
		case op.Outcome != Granted:
		case op.Call < before:
			held++
		default:
			again++
		}
	}
	if held == 0 || again == 0 {
		t.Errorf("%d were granted before, %d after: the run proves nothing", held, again)
	}
	return h
}
