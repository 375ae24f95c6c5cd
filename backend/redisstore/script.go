package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// The four operations, one script each, so that each is one step on the server.
var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string
	//go:embed renew.lua
	renewSource string
	//go:embed lookup.lua
	lookupSource string

	acquireScript = newScript(acquireSource)
	releaseScript = newScript(releaseSource)
	renewScript   = newScript(renewSource)
	lookupScript  = newScript(lookupSource)
)

// script is a Lua body and the name that the server has for it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

// call is one question to a script, as go-redis is given it. Its words point into the call
// itself: go-redis writes what a pointer points to, where each string or number put into an
// interface would be an allocation of its own (see decision 0007).
type call struct {
	script *script
	asking bool    // right behind an ASKING
	words  []any   // EVALSHA and what follows it
	room   [10]any // for the words of the longest
	key    string
	fence  string
	id     string
	ttl    int64 // milliseconds
	limit  notAfter
	floor  uint64
	keep   int64 // ttl of the fence record, milliseconds
}

// newCall asks s about hold's key and id; arguments are added to its words.
func newCall(s *script, hold tierlock.Hold) *call {
	c := &call{script: s, key: hold.Key.String(), id: hold.ID.Secret(), ttl: hold.TTL.Milliseconds()}
	c.words = append(c.room[:0], "evalsha", &s.sha, 1, &c.key, &c.id)
	return c
}

// run calls the script by its name, and once by its body when the server does not know the
// name: it has restarted or was told to forget. Both happen before ctx's deadline.
func (c *call) run(ctx context.Context, client *redis.Client) *redis.Cmd {
	if c.asking {
		return pipelined(ctx, client, []*call{c})[0]
	}
	cmd := redis.NewCmd(ctx, c.words...)
	_ = client.Process(ctx, cmd)
	if unknownScript(cmd.Err()) {
		cmd = c.byBody(ctx)
		_ = client.Process(ctx, cmd)
	}
	return cmd
}

// join puts cmd, which is c's, into a pipeline. ASKING holds for the next command alone.
func (c *call) join(ctx context.Context, pipe redis.Pipeliner, cmd *redis.Cmd) {
	if c.asking {
		_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
	}
	_ = pipe.Process(ctx, cmd)
}

// byBody is the command that carries the whole script.
func (c *call) byBody(ctx context.Context) *redis.Cmd {
	c.words[0], c.words[1] = "eval", &c.script.source
	return redis.NewCmd(ctx, c.words...)
}

// pipelined makes all calls in one round trip, and once more by their bodies those whose
// names the server does not know. Each command carries its own error.
func pipelined(ctx context.Context, client *redis.Client, calls []*call) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(calls))
	pipe := client.Pipeline()
	for i, one := range calls {
		cmds[i] = redis.NewCmd(ctx, one.words...)
		one.join(ctx, pipe, cmds[i])
	}
	_, _ = pipe.Exec(ctx)
	for i, one := range calls {
		if unknownScript(cmds[i].Err()) {
			cmds[i] = one.byBody(ctx)
			one.join(ctx, pipe, cmds[i])
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx)
	}
	return cmds
}

// unknownScript tells whether err says that the server does not know a script's name. Then
// nothing has happened.
func unknownScript(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT ")
}
