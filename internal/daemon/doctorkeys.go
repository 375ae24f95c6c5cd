package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/tierlock/tierlock/backend/redisstore"
)

// longestTTL is the longest that anybody can ask for, whatever the chain: gateway's bound, to which a
// test holds it.
const longestTTL = 10 * time.Minute

// judgeKeys looks through the store's keys for locks that nobody can have, or that end
// never or not in time: by a clock that went back, by somebody else's hand, by a key of the
// same name.
func (c *Config) judgeKeys(ctx context.Context, e *examiner, store *redisstore.Store, span time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	found, err := store.Survey(ctx, or(c.Prefix, "biz"), longestTTL)
	if err != nil {
		e.warn("keys", "look again", "they cannot be gone through: %v", oneLine(err))
		return
	}
	for i := range found {
		judgeStrays(e, &found[i])
	}
}

// enoughKeys is how many keys of a server say something of it, where its end was not reached in
// time: any that answers goes through them in a blink.
const enoughKeys = 10_000

func judgeStrays(e *examiner, s *redisstore.Survey) {
	for _, stray := range s.Strays {
		judgeStray(e, s.Addr, stray)
	}
	if s.More > 0 {
		e.fail("keys", "mend those that are told, and look again", "%s: %d more like these", s.Addr, s.More)
	}
	how := ""
	switch {
	case s.Late:
		how = fmt.Sprintf("; its time was up after some %d keys", s.Passed)
	case !s.Whole:
		how = fmt.Sprintf("; it has more than %d keys, and the others were not gone through", redisstore.Surveyed)
	}
	switch {
	case redisstore.Denied(s.Err):
		e.ok("keys", "%s: not gone through, since that takes a user with +scan +type +pttl", s.Addr)
	case s.Err != nil:
		e.warn("keys", "look again", "%s: %d were gone through, then: %s", s.Addr, s.Keys, oneLine(s.Err))
	case s.Late && s.Passed < enoughKeys:
		e.warn("keys", "look whether the server answers others, and look again", "%s: hardly gone through%s: it hung, or is very slow", s.Addr, how)
	case len(s.Strays) == 0:
		e.ok("keys", "%s: %d locks and records beside them, none is out of order%s", s.Addr, s.Keys, how)
	case how != "":
		e.ok("keys", "%s: %d locks and records were gone through%s", s.Addr, s.Keys, how)
	}
}

// clockRemedy begins what to do about what lasts longer than anybody can ask for.
const clockRemedy = "look at the server's clock: it may have gone back; "

func judgeStray(e *examiner, addr string, s redisstore.Stray) {
	name := fmt.Sprintf("%s: %q", addr, s.Key)
	lock := s.Key[0] != '{' // else a record beside one
	switch {
	case s.WrongType():
		e.fail("keys", "find out who writes it, and rename or delete it", "%s is a %s and no %s: each request that needs it is refused as wrong_type", name, s.Type, s.Want)
	case !lock && s.Left >= 0:
		e.warn("keys", clockRemedy+"PEXPIRE it a day, or delete it while its lock is free", "%s lasts for another %v, and nobody can ask for more than %v", name, s.Left.Round(time.Second), longestTTL)
	case !lock:
		e.warn("keys", "PEXPIRE it a day, or delete it while its lock is free", "%s never ends", name)
	case s.Left < 0:
		e.fail("keys", "tierlock explain tells who has it; if nobody works under it any more DEL it, and the next holder's token is greater still", "%s never ends: held for ever", name)
	default:
		e.fail("keys", clockRemedy+"tierlock explain tells who has it; if nobody works under it any more DEL it, and the next holder's token is greater still",
			"%s is held for another %v, and nobody can ask for more than %v", name, s.Left.Round(time.Second), longestTTL)
	}
}
