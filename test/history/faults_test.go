package history

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// rounds is how often each trouble comes: once, or, with TIERLOCK_SOAK set, for minutes.
func rounds() int {
	if os.Getenv("TIERLOCK_SOAK") != "" {
		return 10
	}
	return 1
}

// A store that keeps its memory, however it answers, and processes that stand still or die:
// the lock is one with a ttl, no two shared holds meet, tokens rise, and the register has
// every increment that was accepted.
func TestSoakWhileTheStoreRemembers(t *testing.T) {
	t.Parallel()
	r := newRun(t, guard.SQLite)
	r.start(3, sound)
	w := r.way
	r.suffer(slices.Repeat([]trouble{
		{"freeze", r.server.Freeze, r.server.Thaw, 1200 * time.Millisecond},
		{"lost replies", w.Begins(way.LoseReplies), w.Begins(way.None), 400 * time.Millisecond},
		{"requests held past their not-after", w.Begins(way.HoldBack), w.Begins(way.None), 700 * time.Millisecond},
		{"resets", w.Begins(way.ResetReply), w.Begins(way.None), 300 * time.Millisecond},
		{"a process stands still", r.workers[0].halt, r.workers[0].resume, 1500 * time.Millisecond},
	}, rounds())...)
	r.workers[2].kill()
	wait(1500 * time.Millisecond) // its lock of a second is free again
	h := r.end()
	r.judge(h, WhileItRemembers...)
	r.met(h, 50, Acquire, Granted)
	r.met(h, 10, Acquire, "")
	r.met(h, 20, Write, Accepted)
	r.met(h, 1, Write, Refused)
	if len(h.Stands) == 0 {
		t.Error("nothing ever stood in the store")
	}
}

// A store that forgets: emptied, killed, replaced by an empty one. Holders meet, and the
// register has every increment that was accepted all the same.
// On PostgreSQL, and in a soak on SQLite too, whose transactions wait in another way.
func TestSoakWhenTheStoreForgets(t *testing.T) {
	t.Parallel()
	dialects := []guard.Dialect{guard.Postgres}
	if rounds() > 1 {
		dialects = append(dialects, guard.SQLite)
	}
	for _, dialect := range dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			forget(t, dialect)
		})
	}
}

func forget(t *testing.T, dialect guard.Dialect) {
	t.Helper()
	r := newRun(t, dialect)
	other := servers.Redis(t)
	r.start(3, sound)
	r.suffer(slices.Repeat([]trouble{
		{"emptied again and again", nil, func() { r.empty(10) }, 0},
		{"killed, and back without memory", r.server.Kill, r.server.Restart, 300 * time.Millisecond},
		{"a process stands still, and its store forgets", r.workers[0].halt, func() { r.empty(1); r.workers[0].resume() }, 1200 * time.Millisecond},
		{"replaced by an empty one", func() { r.replace(other) }, nil, time.Second},
		{"the old one is back", func() { r.replace(r.server) }, nil, time.Second},
	}, rounds())...)
	r.workers[2].kill()
	wait(500 * time.Millisecond)
	h := r.end()
	r.judge(h, Always...)
	r.judge(h, "tokens") // no clock was stepped
	r.met(h, 50, Acquire, Granted)
	r.met(h, 20, Write, Accepted)
	r.met(h, 1, Write, Refused)
	if len(Overlaps(h)) == 0 {
		t.Error("no two holders met: the store has forgotten nothing")
	}
}

// replace leads to another server, which has nothing left of what it knew when it was left, as a
// demoted master has not: what was given back meanwhile could never reach it.
func (r *run) replace(by *servers.RedisServer) {
	r.look(by)
	r.empty(1)
	r.way.Lead(by.Addr())
}

// empty makes the store forget every lock, n times.
func (r *run) empty(n int) {
	r.Helper()
	for range n {
		for _, server := range r.watch {
			if err := server.FlushAll(r.Context()).Err(); err != nil {
				r.Error(err)
			}
		}
		wait(150 * time.Millisecond)
	}
}
