package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// reply is what a script said of one operation. Its statuses are the numbers of
// [tierlock.Status], which the scripts name beside them, and 0 for what was refused.
type reply struct {
	status tierlock.Status
	now    int64         // server's Unix microseconds; 0: not told
	left   time.Duration // of the hold; negative: it never expires
	token  tierlock.Token
	holder string // held: the value in the store
	depth  int
	why    refusal // refused: the server's own words
}

// refusal is an error that a script answered for one operation.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {} // it is told as an error reply is

// fault is why the operation was refused, a [*tierlock.Fault], or nil.
func (r reply) fault() error {
	if r.why == "" {
		return nil
	}
	return fault(r.why)
}

// reply is what the server answered to c, a call of one operation; its error is a
// [*tierlock.Fault].
func (c *call) reply(cmd *redis.Cmd) (reply, error) {
	var room [1]reply
	said, err := c.replies(cmd, room[:0])
	if err != nil {
		return reply{}, err
	}
	return said[0], said[0].fault()
}

// replies adds to room what the server's answer to c says of each operation. Its error, a
// [*tierlock.Fault], concerns them all, and then nothing was added; what was refused to one
// stands in its reply.
func (c *call) replies(cmd *redis.Cmd, room []reply) ([]reply, error) {
	if err := cmd.Err(); err != nil {
		return room, fault(err)
	}
	text, ok := cmd.Val().(string)
	if !ok {
		return room, misshapen(fmt.Sprintf("%T", cmd.Val()))
	}
	said := room
	now, rest, ok := number(text, ' ')
	for range c.ops {
		var r reply
		if ok {
			r, rest, ok = parse(rest)
		}
		r.now = now
		said = append(said, r)
	}
	if !ok || rest != "" {
		return room, misshapen(strconv.Quote(text[:min(len(text), 100)]))
	}
	return said, nil
}

func misshapen(what string) error {
	return &tierlock.Fault{Reason: tierlock.ReasonBroken, InDoubt: true, Err: fmt.Errorf("reply of another shape than the script's: %s", what)}
}

// parse takes the first operation off text, and accepts what spec/lock.md says and nothing
// else: a space, the status, and where there is more to say left, depth, how long the word
// is, and the word: token, holder or refusal.
func parse(text string) (r reply, rest string, ok bool) {
	if len(text) < 2 || text[0] != ' ' || text[1] < '0' || text[1] > '0'+byte(tierlock.Gone) {
		return reply{}, "", false
	}
	r.status = tierlock.Status(text[1] - '0')
	rest = text[2:]
	if rest == "" || rest[0] == ' ' {
		if r.status == tierlock.Granted {
			r.depth = 1
		}
		return r, rest, r.status != 0 && r.status != tierlock.Mine && r.status != tierlock.Held
	}
	var parts [3]int64
	for i := range parts {
		if rest[0] != ':' {
			return reply{}, "", false
		}
		if parts[i], rest, ok = number(rest[1:], ':'); !ok || rest == "" {
			return reply{}, "", false
		}
	}
	left, depth, length := parts[0], parts[1], parts[2]
	if length < 0 || length >= int64(len(rest)) || depth < 0 {
		return reply{}, "", false
	}
	word := rest[1 : 1+length]
	r.left, r.depth, rest = time.Duration(left)*time.Millisecond, int(depth), rest[1+length:]
	switch r.status {
	case 0:
		r.why = refusal(word)
		return r, rest, word != ""
	case tierlock.Held:
		r.holder = word
		return r, rest, true
	case tierlock.Granted, tierlock.Mine:
		token, none, ok := number(word, 0)
		r.token = tierlock.Token(token)
		if word == "" {
			return r, rest, r.status == tierlock.Mine || left != 0 // else it says no more than its status
		}
		return r, rest, ok && none == "" && token >= 0
	}
	return reply{}, "", false // of late, released and gone there is no more to say
}

// number takes an integer off text, which ends there or has a byte of end next.
func number(text string, end byte) (n int64, rest string, ok bool) {
	i := 0
	for i < len(text) && text[i] != end {
		i++
	}
	n, err := strconv.ParseInt(text[:i], 10, 64)
	return n, text[i:], err == nil
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
		a.Remaining, a.Endless = max(0, r.left), r.left < 0
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
