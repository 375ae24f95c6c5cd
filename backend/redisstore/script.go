package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"
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

// run calls s by its name, and once by its body when the server does not know the name:
// it has restarted or was told to forget. Both happen before ctx's deadline.
func (s script) run(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd {
	cmd := c.EvalSha(ctx, s.sha, keys, args...)
	if unknownScript(cmd.Err()) {
		return c.Eval(ctx, s.source, keys, args...)
	}
	return cmd
}

// call is one script with what it is asked.
type call struct {
	script script
	keys   []string
	args   []any
}

// pipelined makes all calls in one round trip, and once more by their bodies those whose
// names the server does not know. Each command carries its own error.
func pipelined(ctx context.Context, c *redis.Client, calls []call) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(calls))
	pipe := c.Pipeline()
	for i, one := range calls {
		cmds[i] = pipe.EvalSha(ctx, one.script.sha, one.keys, one.args...)
	}
	_, _ = pipe.Exec(ctx)
	for i, one := range calls {
		if unknownScript(cmds[i].Err()) {
			cmds[i] = pipe.Eval(ctx, one.script.source, one.keys, one.args...)
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
