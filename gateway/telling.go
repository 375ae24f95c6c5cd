package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// faultEvery is how often a hook that panics all the time gets a line in the log.
const faultEvery = time.Second

// hookFaults counts hooks that panicked.
type hookFaults struct {
	all   atomic.Int64
	began time.Time
	due   atomic.Int64 // when the next line may be written, since began
}

// tell calls a hook that may be off. One that panics is logged and counted, and nothing
// else: it was told after the fact, so the lock, the ladder and the loops that tell it are
// not its business, and neither is a caller whose lock would be lost with its answer.
func tell[T any](g *Gateway, name string, hook func(T), v T) {
	if hook == nil {
		return
	}
	defer g.caught(name)
	hook(v)
}

// caught takes in the panic of a hook. It is to be deferred.
func (g *Gateway) caught(hook string) {
	what := recover()
	if what == nil {
		return
	}
	f := &g.faults
	n := f.all.Add(1)
	now, due := int64(time.Since(f.began)), f.due.Load()
	if now < due || !f.due.CompareAndSwap(due, now+int64(faultEvery)) {
		return
	}
	g.log.LogAttrs(context.Background(), slog.LevelError, "hook panicked", slog.String("hook", hook),
		slog.String("panic", fmt.Sprint(what)), slog.Int64("panics", n), slog.String("stack", string(debug.Stack())))
}

// teller tells news one at a time, in the order in which they were put in, with no lock
// held: whoever finds somebody telling leaves its news to him. The zero teller is ready.
type teller[T any] struct {
	mu      sync.Mutex
	news    []T  // not told yet; guarded by mu
	telling bool // guarded by mu
}

// put is called under the lock that makes the order of the news.
func (t *teller[T]) put(v T) {
	t.mu.Lock()
	t.news = append(t.news, v)
	t.mu.Unlock()
}

// tell tells what there is.
func (t *teller[T]) tell(each func(T)) {
	for t.tellOne(each) {
	}
}

// tellOne tells the oldest. It is false when there is none, or when somebody else is
// telling. Where each panics, what is behind is told with the next.
func (t *teller[T]) tellOne(each func(T)) bool {
	t.mu.Lock()
	if t.telling || len(t.news) == 0 {
		t.mu.Unlock()
		return false
	}
	t.telling = true
	v := t.news[0]
	t.news = t.news[1:]
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.telling = false
		t.mu.Unlock()
	}()
	each(v)
	return true
}
