package redisstore

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// reply is what a script said. Its statuses are the numbers of [tierlock.Status], which
// the scripts name beside them.
type reply struct {
	status tierlock.Status
	now    int64         // server's Unix microseconds; acquire only
	left   time.Duration // of the hold; negative: it never expires
	token  tierlock.Token
	holder string // held: the value in the store
}

// read takes a command's reply apart; its error is a [*tierlock.Fault].
func read(cmd *redis.Cmd) (reply, error) {
	parts, err := cmd.Slice()
	if err != nil {
		return reply{}, fault(err)
	}
	r, ok := parse(parts)
	if !ok {
		return reply{}, &tierlock.Fault{Reason: tierlock.ReasonBroken, InDoubt: true, Err: fmt.Errorf("reply of another shape than the script's: %d parts", len(parts))}
	}
	return r, nil
}

// parse accepts what the scripts say and nothing else.
func parse(parts []any) (r reply, ok bool) {
	var numbers [4]int64
	if len(parts) == 0 || len(parts) > len(numbers) {
		return r, false
	}
	for i, part := range parts {
		switch part := part.(type) {
		case int64:
			numbers[i] = part
		case string:
			if i != 3 || numbers[0] != int64(tierlock.Held) {
				return r, false
			}
			r.holder = part
		default:
			return r, false
		}
	}
	if numbers[0] < int64(tierlock.Granted) || numbers[0] > int64(tierlock.Gone) {
		return r, false
	}
	r.status = tierlock.Status(numbers[0])
	r.now = numbers[1]
	r.left = time.Duration(numbers[2]) * time.Millisecond
	r.token = tierlock.Token(numbers[3])
	return r, true
}

// answer is the reply to a question about a hold of ttl that was sent then.
func (r reply) answer(sent time.Time, ttl time.Duration) tierlock.Answer {
	a := tierlock.Answer{Status: r.status}
	switch r.status {
	case tierlock.Granted:
		a.Exclusive, a.Depth, a.Token, a.Until = true, 1, r.token, until(sent, ttl)
	case tierlock.Mine:
		left := r.left
		if left < 0 {
			left = ttl // somebody took its expiry away; it lasts at least as long
		}
		a.Exclusive, a.Depth, a.Token, a.Until = true, 1, r.token, until(sent, left)
	case tierlock.Held:
		a.Remaining = max(0, r.left)
		a.Holder = tierlock.FingerprintOf([]byte(r.holder))
	}
	return a
}

// until is when a hold that had left to live when its request was sent, or later, may have
// ended by the server's clock: 1 % and 2 ms earlier than by ours, whichever runs faster.
func until(sent time.Time, left time.Duration) time.Time {
	left = left.Truncate(time.Millisecond)
	return sent.Add(left - left/100 - 2*time.Millisecond)
}
