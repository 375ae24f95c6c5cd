package composition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// place is where a chain stands: by an order, or by the health of its store. tune prepares
// the policy and the store for it, so that it comes soon and stays; go leads there.
type place struct {
	name string
	mode tierlock.Mode // auto: by health
	tune func(*gateway.Policy, *redisstore.Config)
	lead func(*ground)
}

func ordered(mode tierlock.Mode) place { return place{name: mode.String(), mode: mode} }

// The places that a store's health leads to.
var (
	slow = place{name: "slow", lead: func(g *ground) {
		g.own.way.Delay(late)
		g.become(degrade.Slow, 8)
	}}
	saturated = place{name: "saturated", tune: func(p *gateway.Policy, c *redisstore.Config) {
		c.Wire, c.PoolSize = 2, 2
		p.Ladder.SaturateIn, p.Ladder.RelaxIn, p.Ladder.Timeouts, p.Ladder.ProbeLost = 300*time.Millisecond, long, 64, long
	}, lead: func(g *ground) {
		g.own.way.Delay(late)
		g.become(degrade.Saturated, 6)
		g.own.way.Delay(0) // it answers again, and is not left for that before RelaxIn
		g.until("the wire is free", func() bool { return g.own.Status().Chains[0].Targets[0].Out == 0 })
	}}
	gone = place{name: "store gone", lead: func(g *ground) {
		g.own.way.Cut()
		g.far.way.Cut()
		g.become(degrade.Down, 1)
	}}
	recovering = place{name: "recovering", tune: func(p *gateway.Policy, _ *redisstore.Config) {
		p.Ladder.RampEvery = long
	}, lead: func(g *ground) {
		if g.own.state() != degrade.Down {
			g.own.way.Cut()
			g.become(degrade.Down, 1)
		}
		g.mend()
		g.become(degrade.Recovering, 0)
	}}
)

// mend ends every fault of the ways.
func (g *ground) mend() {
	g.Helper()
	for _, p := range []process{g.own, g.far} {
		p.way.Delay(0)
		if err := p.way.Restore(); err != nil {
			g.Fatalf("%v", err)
		}
	}
}

// start is where a lock is taken.
type start struct {
	name    string
	mode    tierlock.Mode
	outage  bool // its way to the store is cut, and no order given
	strong  bool // strong chains have it too, if only by break_glass
	handle  bool // there is a lock
	inStore bool // it stands in the store
}

var starts = []start{
	{name: "shared", mode: tierlock.ModeAuto, strong: true, handle: true, inStore: true},
	{name: "optimistic", mode: tierlock.ModeOptimistic, strong: true},
	{name: "local", mode: tierlock.ModeLocal, strong: true, handle: true},
	{name: "local, store gone", mode: tierlock.ModeAuto, outage: true, handle: true},
	{name: "bypass", mode: tierlock.ModeBypass, strong: true, handle: true},
}

var places = []place{
	ordered(tierlock.ModeShared), ordered(tierlock.ModeOptimistic), ordered(tierlock.ModeLocal),
	ordered(tierlock.ModeBypass), ordered(tierlock.ModeReject),
	slow, saturated, gone, recovering,
}

// row is one line of the table.
type row struct {
	class degrade.Class
	from  start
	to    place
}

// run takes a lock, moves its chain, and tells what becomes of the lock, to its end.
func (r row) run(g *ground, id string) []string {
	g.Helper()
	if r.from.outage {
		g.own.way.Cut()
		g.become(degrade.Down, 1)
	}
	g.order(r.from.mode)
	ctx := context.Background()
	request := tierlock.NewRequestID()
	l, err := g.own.TryLock(ctx, id, gateway.WithRequestID(request), gateway.WithoutRenew())
	tier, _, _ := strings.Cut(r.from.name, ",")
	switch {
	case !r.from.handle:
		if !errors.Is(err, tierlock.ErrOptimistic) || l != nil {
			g.Fatalf("%v, %v", l, err)
		}
	case err != nil:
		g.Fatalf("%v", err)
	case l.Grant().Tier.String() != tier:
		g.Fatalf("on tier %v", l.Grant().Tier)
	}
	foreign := g.foreign(id, r.from.inStore)
	r.flip(g)

	key, err := tierlock.ParseKey("biz:" + g.own.Name() + ":lock:" + id)
	if err != nil {
		g.Fatalf("%v", err)
	}
	attached := func(p process) string {
		h, err := p.Attach(ctx, key, request, gateway.WithoutRenew())
		if err != nil {
			return word(err)
		}
		return held(h.IsHeld(ctx))
	}
	cells := []string{r.from.name, r.to.name, held(l.IsHeld(ctx)), attached(g.own), attached(g.far)}
	before := l.Grant().ExpiresAt
	renewed := l.Renew(ctx, 10*time.Minute)
	cell := word(renewed)
	if after := l.Grant().ExpiresAt; renewed == nil && !after.After(before) {
		cell = "yes, the end stays"
	}
	unlocked := word(l.Unlock(ctx))
	cells = append(cells, cell, unlocked, g.left(key, foreign == nil))
	return append(cells, r.end(g, l, foreign, key))
}

// foreign has another process take the key in the store, where the lock itself does not
// stand: whatever becomes of the lock, it is not that one's to give back.
func (g *ground) foreign(id string, stands bool) *gateway.Lock {
	g.Helper()
	l, err := g.other.TryLock(context.Background(), id, gateway.WithoutRenew())
	switch {
	case stands && !errors.Is(err, tierlock.ErrHeld):
		g.Fatalf("the store has no lock of ours: %v", err)
	case !stands && err != nil:
		g.Fatalf("another process: %v", err)
	}
	return l
}

// flip moves the taker's chain.
func (r row) flip(g *ground) {
	g.Helper()
	g.order(cmp.Or(r.to.mode, tierlock.ModeAuto)) // health is hidden by an order
	if r.to.lead == nil {
		return
	}
	if r.from.outage && r.to.name != recovering.name && r.to.name != gone.name {
		g.mend()
		g.become(degrade.Normal, 0)
	}
	r.to.lead(g)
}

// end mends what is broken, follows the release to its end, and tells what is left then. The
// key is whoever's has it by now, and a second Unlock takes it from nobody.
func (r row) end(g *ground, l, foreign *gateway.Lock, key tierlock.Key) string {
	g.Helper()
	ctx := context.Background()
	g.mend()
	g.until("nothing of it is in doubt", func() bool { return !g.doubtful(key) })
	var rest []string
	if left := g.left(key, foreign == nil); left != "nothing" {
		rest = append(rest, left)
	}
	if foreign == nil {
		_, id, _ := strings.Cut(key.String(), ":lock:")
		foreign = g.foreign(id, false)
	}
	_ = l.Unlock(ctx)
	if ok, err := foreign.IsHeld(ctx); !ok || err != nil {
		rest = append(rest, fmt.Sprintf("another's lock is %v, %v", ok, err))
	}
	if err := foreign.Unlock(ctx); err != nil || g.keys(key) > 0 {
		rest = append(rest, fmt.Sprintf("another's lock could not be given back: %v", err))
	}
	return cmp.Or(strings.Join(rest, "; "), "nothing")
}

func held(yes bool, err error) string {
	switch {
	case err != nil:
		return word(err)
	case yes:
		return "yes"
	}
	return "no"
}

func word(err error) string {
	var e *tierlock.Error
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, tierlock.ErrLost):
		return "lost"
	case errors.As(err, &e) && (e.Outcome == tierlock.SystemError || e.Outcome == tierlock.Timeout):
		return "no answer" // by which of the two depends on what the last connection met
	}
	return err.Error()
}

// play runs all rows, some at a time: most of each is waiting.
func play(t *testing.T, redisAddr string, all []row) [][]string {
	t.Helper()
	others := map[degrade.Class]process{}
	for _, class := range []degrade.Class{degrade.ClassWeak, degrade.ClassStrong} {
		p, end, err := newProcess(redisAddr, policyOf(class), func(*redisstore.Config) {})
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		others[class] = p
	}
	direct := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer direct.Close()
	table := make([][]string, len(all))
	turns := make(chan struct{}, 12)
	var playing sync.WaitGroup
	for i, r := range all {
		playing.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			defer func() {
				if table[i] == nil {
					t.Errorf("that was %v: %s, then %s", r.class, r.from.name, r.to.name)
				}
			}()
			g := &ground{T: t, direct: direct, other: others[r.class]}
			policy, tune := policyOf(r.class), r.to.tune
			if tune == nil {
				tune = func(*gateway.Policy, *redisstore.Config) {}
			}
			tune(&policy, new(redisstore.Config))
			for _, p := range []*process{&g.own, &g.far} {
				one, end, err := newProcess(redisAddr, policy, func(c *redisstore.Config) { tune(new(gateway.Policy), c) })
				if err != nil {
					g.Fatalf("%v", err)
				}
				defer end()
				*p = one
			}
			table[i] = r.run(g, fmt.Sprint("row", i))
		})
	}
	playing.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return table
}

// TestStatesAsTheDocsSay runs every row of docs/states.md on a real Redis. A row that has
// changed is printed whole: with TIERLOCK_WRITE_DOCS=1 the table is written anew.
func TestStatesAsTheDocsSay(t *testing.T) {
	server := servers.Redis(t)
	var table strings.Builder
	table.WriteString("| acquired on | then the chain goes to | `IsHeld` | `Attach` in its process | `Attach` elsewhere | `Renew` | `Unlock` | left behind | in the end |\n|---|---|---|---|---|---|---|---|---|\n")
	var all []row
	for _, class := range []degrade.Class{degrade.ClassWeak, degrade.ClassStrong} {
		for _, from := range starts {
			for _, to := range places {
				if class == degrade.ClassWeak || from.strong {
					all = append(all, row{class, from, to})
				}
			}
		}
	}
	seen := map[string]bool{}
	for i, cells := range play(t, server.Addr(), all) {
		line := strings.Join(cells, " | ")
		if all[i].class == degrade.ClassWeak {
			fmt.Fprintf(&table, "| %s |\n", line)
			seen[line] = true
		} else if !seen[line] { // the handle and not the class says where a call goes
			t.Errorf("a strong chain has another row: | %s |", line)
		}
	}
	page := filepath.Join(root, "docs/states.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), "| acquired on")
	if !ok {
		t.Fatalf("%s has no table", page)
	}
	_, tail, _ := strings.Cut(rest, "\n\n")
	want := head + table.String() + "\n" + tail
	if os.Getenv("TIERLOCK_WRITE_DOCS") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("docs/states.md says otherwise; this came:\n%s", table.String())
	}
}
