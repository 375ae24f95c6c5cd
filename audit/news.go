package audit

import (
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// Step is one change of a chain's health, as a heartbeat tells it. The steps of one chain and
// target have contiguous epochs from 1: a reader sees by them what it was not told.
type Step struct {
	At       time.Time
	Chain    string
	Target   string // the part of the store; empty on a store without parts
	From, To string // words of package degrade: normal, slow, saturated, down, recovering
	Reason   tierlock.Reason
	Dwell    time.Duration // spent in From; written as whole milliseconds
	Epoch    uint64
	Observed bool // the chain only observes: its calls went to the store all the same
}

// Replaced tells that another server, or one without its memory, serves a part of a store:
// what was granted there before At may be forgotten.
type Replaced struct {
	At     time.Time
	Store  string
	Target string // empty on a store without parts
}

// mostNews bounds the steps and replacements that wait for a heartbeat, while none can be
// written; the oldest go first.
const mostNews = 256

// news is what the next heartbeat tells beside the state of things.
type news struct {
	come chan struct{} // buffered: a heartbeat is to be written now

	mu       sync.Mutex
	steps    []Step     // guarded by mu
	replaced []Replaced // guarded by mu
}

// Stepped has a heartbeat written now that tells of s. It does not wait for it. What cannot be
// written, since the disk takes nothing, is told by a later one.
func (l *Log) Stepped(s Step) {
	l.news.mu.Lock()
	l.news.steps = latest(append(l.news.steps, s))
	l.news.mu.Unlock()
	l.news.poke()
}

// Replaced is the same for r.
func (l *Log) Replaced(r Replaced) {
	l.news.mu.Lock()
	l.news.replaced = latest(append(l.news.replaced, r))
	l.news.mu.Unlock()
	l.news.poke()
}

func (n *news) poke() {
	select {
	case n.come <- struct{}{}:
	default:
	}
}

// take takes what waits; untold puts it back, before what has come since.
func (n *news) take() (steps []Step, replaced []Replaced) {
	n.mu.Lock()
	defer n.mu.Unlock()
	steps, replaced = n.steps, n.replaced
	n.steps, n.replaced = nil, nil
	return steps, replaced
}

func (n *news) untold(steps []Step, replaced []Replaced) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.steps, n.replaced = latest(append(steps, n.steps...)), latest(append(replaced, n.replaced...))
}

func (n *news) waits() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.steps)+len(n.replaced) > 0
}

func latest[T any](all []T) []T { return all[max(0, len(all)-mostNews):] }

// appendNews adds what a heartbeat tells of changes.
func (e *Event) appendNews(b []byte) []byte {
	for i := range e.Steps {
		s := &e.Steps[i]
		b = opening(b, `,"steps":[`, i)
		b = appendTime(b, `{"at":`, s.At)
		b = appendText(b, `,"chain":`, s.Chain)
		if s.Target != "" {
			b = appendText(b, `,"target":`, s.Target)
		}
		b = appendText(b, `,"from":`, s.From)
		b = appendText(b, `,"to":`, s.To)
		if s.Reason != "" {
			b = appendText(b, `,"reason":`, string(s.Reason))
		}
		b = appendInt(b, `,"dwell_ms":`, s.Dwell.Milliseconds())
		b = appendUint(b, `,"epoch":`, s.Epoch)
		if s.Observed {
			b = append(b, `,"observed":true`...)
		}
		b = closing(b, i, len(e.Steps))
	}
	for i := range e.Replaced {
		r := &e.Replaced[i]
		b = opening(b, `,"replaced":[`, i)
		b = appendTime(b, `{"at":`, r.At)
		b = appendText(b, `,"store":`, r.Store)
		if r.Target != "" {
			b = appendText(b, `,"target":`, r.Target)
		}
		b = closing(b, i, len(e.Replaced))
	}
	return b
}

// opening begins item i of a list, and the list with the first; closing ends both.
func opening(b []byte, name string, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return append(b, name...)
}

func closing(b []byte, i, n int) []byte {
	if i < n-1 {
		return append(b, '}')
	}
	return append(b, '}', ']')
}

// wireStep and wireReplaced are the same as they are read.
type wireStep struct {
	At       time.Time       `json:"at"`
	Chain    string          `json:"chain"`
	Target   string          `json:"target"`
	From     string          `json:"from"`
	To       string          `json:"to"`
	Reason   tierlock.Reason `json:"reason"`
	Dwell    int64           `json:"dwell_ms"`
	Epoch    uint64          `json:"epoch"`
	Observed bool            `json:"observed"`
}

type wireReplaced struct {
	At     time.Time `json:"at"`
	Store  string    `json:"store"`
	Target string    `json:"target"`
}

func (w *wire) readNews(e *Event) {
	for _, s := range w.Steps {
		e.Steps = append(e.Steps, Step{
			At: s.At, Chain: s.Chain, Target: s.Target, From: s.From, To: s.To, Reason: s.Reason,
			Dwell: time.Duration(s.Dwell) * time.Millisecond, Epoch: s.Epoch, Observed: s.Observed,
		})
	}
	for _, r := range w.Replaced {
		e.Replaced = append(e.Replaced, Replaced(r))
	}
}
