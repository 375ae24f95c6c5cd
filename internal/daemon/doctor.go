package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The grades of a check.
const (
	gradeOK   = "ok"
	gradeWarn = "warn" // it works, and one bad day it will not
	gradeFail = "fail" // it does not work, or breaks what the lock promises
)

// checkup is one thing that doctor has looked at.
type checkup struct {
	Group  string `json:"group"` // what it is about: host, spool, store main, kafka, switch, policy
	Check  string `json:"check"`
	Grade  string `json:"grade"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // what to do about it; empty where all is well
}

// examiner collects what one group of checks finds.
type examiner struct {
	group string
	found []checkup
}

func (e *examiner) ok(check, format string, args ...any) {
	e.found = append(e.found, checkup{e.group, check, gradeOK, fmt.Sprintf(format, args...), ""})
}

// warn and fail take the remedy first: nothing is found fault with that has none.
func (e *examiner) warn(check, remedy, format string, args ...any) {
	e.found = append(e.found, checkup{e.group, check, gradeWarn, fmt.Sprintf(format, args...), remedy})
}

func (e *examiner) fail(check, remedy, format string, args ...any) {
	e.found = append(e.found, checkup{e.group, check, gradeFail, fmt.Sprintf(format, args...), remedy})
}

// group is some checks that ask one thing.
type group struct {
	name  string
	check func(ctx context.Context, e *examiner)
}

// groupTimeout bounds each group: all run at once, so it bounds the command.
const groupTimeout = 10 * time.Second

// examine runs all groups at once and returns what they found, in the order of groups. A
// group that does not come back soon after its time, as one that waits for a dead file
// server may, is left behind: the process ends soon.
func examine(ctx context.Context, groups []group, timeout time.Duration) []checkup {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	results := make([][]checkup, len(groups))
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() { results[i] = g.run(ctx) })
	}
	all.Wait()
	var found []checkup
	for _, r := range results {
		found = append(found, r...)
	}
	return found
}

// run is the group's checks, or that they did not end.
func (g group) run(ctx context.Context) []checkup {
	done := make(chan []checkup, 1)
	go func() {
		e := &examiner{group: g.name}
		g.check(ctx, e)
		done <- e.found
	}()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
	}
	grace := time.NewTimer(time.Second) // for those who end with ctx, and tell what they know
	defer grace.Stop()
	select {
	case found := <-done:
		return found
	case <-grace.C:
		e := &examiner{group: g.name}
		e.fail("answer", "look whether it is there, and its network", "nothing came back in time")
		return e.found
	}
}
