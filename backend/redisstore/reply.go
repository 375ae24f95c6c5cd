package redisstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// reply is what a script said of one operation. Its statuses are the numbers of
// [tierlock.Status], which the scripts name beside them, and 0 for what was refused.
type reply struct {
	status tierlock.Status
	now    int64         // server's Unix microseconds; acquire only
	left   time.Duration // of the hold; negative: it never expires
	token  tierlock.Token
	holder string // held: the value in the store
	depth  int
}

// partsPerOp is how much of a reply belongs to each operation.
const partsPerOp = 4

// refusal is an error that a script answered for one operation.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {} // it is told as an error reply is

// reply is what the server's answer to c says of operation i; its error is a
// [*tierlock.Fault].
func (c *call) reply(cmd *redis.Cmd, i int) (reply, error) {
	parts, err := cmd.Slice()
	if err != nil {
		return reply{}, fault(err)
	}
	if len(parts) != 1+c.ops*partsPerOp {
		return reply{}, misshapen(parts)
	}
	r, why, ok := parse(parts[0], parts[1+i*partsPerOp:][:partsPerOp])
	switch {
	case !ok:
		return reply{}, misshapen(parts)
	case why != "":
		return reply{}, fault(refusal(why))
	}
	return r, nil
}

func misshapen(parts []any) error {
	return &tierlock.Fault{Reason: tierlock.ReasonBroken, InDoubt: true, Err: fmt.Errorf("reply of another shape than the script's: %d parts", len(parts))}
}

// parse accepts what the scripts say of one operation, why it was refused included, and
// nothing else.
func parse(now any, parts []any) (r reply, why string, ok bool) {
	status, ok1 := parts[0].(int64)
	left, ok2 := parts[1].(int64)
	depth, ok3 := parts[3].(int64)
	r.now, ok = now.(int64)
	if !ok || !ok1 || !ok2 || !ok3 || status < 0 || status > int64(tierlock.Gone) {
		return reply{}, "", false
	}
	r.status, r.left, r.depth = tierlock.Status(status), time.Duration(left)*time.Millisecond, int(depth)
	switch word := parts[2].(type) {
	case int64:
		r.token = tierlock.Token(word)
		return r, "", r.status != 0 && r.status != tierlock.Held
	case string:
		if r.status == 0 {
			return reply{}, word, word != ""
		}
		r.holder = word
		return r, "", r.status == tierlock.Held
	}
	return reply{}, "", false
}

// entered tells that the lock is this id's and was entered more than once: what is asked of
// it needs the record of its entries. Without, a renewal has done its half, and nothing else
// anything.
func (r reply) entered() bool { return r.status == tierlock.Mine && r.depth == 0 }

// mark stands behind the id of a lock that was entered; the scripts have it too.
const mark = "+"

// answer is the reply to a question about a hold of ttl that was sent then.
func (r reply) answer(sent time.Time, ttl time.Duration) tierlock.Answer {
	a := tierlock.Answer{Status: r.status}
	switch r.status {
	case tierlock.Granted:
		if r.left > 0 { // a hand-over that was repeated
			ttl = r.left
		}
		a.Exclusive, a.Depth, a.Token, a.Until = true, r.depth, r.token, until(sent, ttl)
	case tierlock.Mine:
		left := r.left
		if left < 0 {
			left = ttl // somebody took its expiry away; it lasts at least as long
		}
		a.Exclusive, a.Depth, a.Token, a.Until = true, r.depth, r.token, until(sent, left)
	case tierlock.Held:
		a.Remaining = max(0, r.left)
		holder := r.holder
		if len(holder) == len(secret{})+len(mark) {
			holder = strings.TrimSuffix(holder, mark)
		}
		a.Holder = tierlock.FingerprintOf([]byte(holder))
	}
	return a
}

// until is when a hold that had left to live when its request was sent, or later, may have
// ended by the server's clock: 1 % and 2 ms earlier than by ours, whichever runs faster.
func until(sent time.Time, left time.Duration) time.Time {
	left = left.Truncate(time.Millisecond)
	return sent.Add(left - left/100 - 2*time.Millisecond)
}
