package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

const (
	// surveyPage is how many keys a server looks through at once: a third of a millisecond,
	// in which it serves nobody else.
	surveyPage = 1000
	// Surveyed bounds how many keys are looked through on one server.
	Surveyed = 1_000_000
	// straysTold bounds what is told of one server.
	straysTold = 100
)

// Survey is what a look at the locks of one Redis server found.
type Survey struct {
	Addr   string
	Err    error // it could not be looked through to its end; what is below is what was found till then
	Keys   int   // locks and records beside them that were looked at
	Passed int   // keys that were gone through, whosesoever, to the thousand
	Whole  bool  // every key of the server was gone through
	Late   bool  // its end was not reached in time; neither Whole nor Late nor Err: not within [Surveyed] keys
	Strays []Stray
	More   int // strays beyond the first hundred
}

// Stray is a lock, or a record beside one, that no request of ours leaves like that.
type Stray struct {
	Key  string
	Type string        // "string", "set", as Redis calls it
	Want string        // the type that it must have
	Left time.Duration // till it ends; negative: never
}

// WrongType tells whether no lock can be had of it: each request about it is refused.
func (s Stray) WrongType() bool { return s.Type != s.Want }

// Survey goes through the keys of each server that grants, at most a million of each and
// till ctx ends, and tells the locks under prefix, and the records beside them, which have
// another type than they must, or end never or not within longest. It changes nothing. The
// user needs the rights to SCAN, TYPE and PTTL, which the store itself does not; a server
// that denies them has an Err for which [Denied] is true. The error itself is for what
// concerns all servers.
func (s *Store) Survey(ctx context.Context, prefix string, longest time.Duration) ([]Survey, error) {
	q, err := s.question(ctx)
	if err != nil {
		return nil, err
	}
	defer q.end()
	masters, err := s.masters(q.context())
	if err != nil {
		return nil, err
	}
	return each(masters, func(n *node) Survey { return n.survey(q.context(), prefix, longest) }), nil
}

// Denied tells whether err says that the user lacks a right.
func Denied(err error) bool { return denied(err) }

func (n *node) survey(ctx context.Context, prefix string, longest time.Duration) Survey {
	found := Survey{Addr: n.addr}
	var cursor uint64
	for found.Passed < Surveyed {
		var page []string
		if page, cursor, found.Err = n.control.Scan(ctx, cursor, "*"+prefix+":*", surveyPage).Result(); found.Err != nil {
			break
		}
		if found.Err = n.surveyPage(ctx, &found, page, prefix, longest); found.Err != nil {
			break
		}
		found.Passed += surveyPage
		if cursor == 0 {
			found.Whole = true
			break
		}
	}
	if timedOut(found.Err) || errors.Is(found.Err, context.DeadlineExceeded) {
		found.Err, found.Late = nil, true
	}
	slices.SortFunc(found.Strays, func(a, b Stray) int { return strings.Compare(a.Key, b.Key) })
	return found
}

func (n *node) surveyPage(ctx context.Context, found *Survey, page []string, prefix string, longest time.Duration) error {
	var keys, wants []string
	for _, key := range page {
		if want := typeOf(key, prefix); want != "" {
			keys, wants = append(keys, key), append(wants, want)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	types, ends := make([]*redis.StatusCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	_, err := n.control.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			types[i], ends[i] = p.Type(ctx, key), p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, key := range keys {
		found.Keys++
		s := Stray{Key: key, Type: types[i].Val(), Want: wants[i], Left: ends[i].Val()}
		if s.Type == "none" || s.Left == gone {
			continue // it has ended since
		}
		if s.WrongType() || s.Left < 0 || s.Left > longest && !strings.HasSuffix(key, "}:fence") {
			found.add(s)
		}
	}
	return nil
}

// gone is what PTTL says of a key that is not there.
const gone time.Duration = -2

// add keeps one, unless SCAN has told it before; of too many only the number.
func (s *Survey) add(one Stray) {
	switch {
	case slices.ContainsFunc(s.Strays, func(told Stray) bool { return told.Key == one.Key }):
	case len(s.Strays) < straysTold:
		s.Strays = append(s.Strays, one)
	default:
		s.More++
	}
}

// typeOf is the type of a lock, or of a record beside one; empty for what is neither.
func typeOf(key, prefix string) string {
	if lock, record, beside := strings.Cut(strings.TrimPrefix(key, "{"), "}:"); beside && strings.HasPrefix(key, "{") && isLock(lock, prefix) {
		return map[string]string{"depth": "hash", "fence": "string", "wait": "zset"}[record]
	}
	if isLock(key, prefix) {
		return "string"
	}
	return ""
}

// isLock tells whether a key has the form prefix:chain:lock:what.
func isLock(key, prefix string) bool {
	rest, ok := strings.CutPrefix(key, prefix+":")
	chain, what, lock := strings.Cut(rest, ":lock:")
	_, err := tierlock.ParseKey(key)
	return ok && lock && chain != "" && strings.Trim(chain, chainBytes) == "" && what != "" && err == nil
}

// chainBytes are those that a chain's name may have; an application's own key of several parts,
// as prefix:user:42:lock:x, is no lock of ours.
const chainBytes = "abcdefghijklmnopqrstuvwxyz0123456789_-"
