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
