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

// The operations, one script each. One call serves many operations of one slot, so
// each call is one step on the server and each operation is, too. What the bodies take and
// answer stands at their tops; in short:
//
//	KEYS   of each operation: the lock, and what its shape adds
//	ARGV   of each operation: shape, id, and what the script and the shape add
//	reply  one text: server time, or 0 where the script has no use for it, and of each
//	       operation the status, and maybe ttl left, depth, and token, holder or refusal
//
// A shape is a small number, the sum of what an operation has more than the plain one. An
// operation has neither a fixed number of keys nor of arguments; the bodies walk over both.
// A plain one names one key: while a Cluster moves its slot, that key is somewhere whole.
var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string
	//go:embed renew.lua
	renewSource string
	//go:embed lookup.lua
	lookupSource string
	//go:embed pass.lua
	passSource string
	//go:embed mint.lua
	mintSource string

	acquireScript = newScript("acquire", acquireSource, acquireArgs)
	releaseScript = newScript("release", releaseSource, releaseArgs)
	renewScript   = newScript("renew", renewSource, renewArgs)
	lookupScript  = newScript("lookup", lookupSource, lookupArgs)
	passScript    = newScript("pass", passSource, passArgs)
	mintScript    = newScript("mint", mintSource, mintArgs)
)

// The shapes.
const (
	shapeFenced = 1 // it mints a token
	shapeEntry  = 2 // it looks at the entries: one is made or given back, or the lock was entered before
	shapeLine   = 4 // it may wait in line, or wakes who does
)

// maxOps is how many operations one call carries: the server serves nobody else meanwhile,
// and more of them gain nothing (measured).
const maxOps = 64

// script is a Lua body, the names that the server has for it, as a script and as a
// function, and the arguments that it wants of each operation.
type script struct {
	source, sha string
	function    string
	args        func(o *op, words []any) []any
}

func newScript(name, source string, args func(*op, []any) []any) script {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	return script{source, sha, functionOf(name, sha), args}
}

// op is one operation: what is asked about one hold.
type op struct {
	of    tierlock.Key
	key   string // the lock, or what the operation is about in its place
	shape int
	depth name // the record of its entries, where its shape says so
	fence name // its fence record, where its shape says so
	line  name // who waits for it, where its shape says so
	entry uint64
	id    secret
	ttl   int64 // milliseconds
	limit notAfter
	floor uint64
	keep  int64 // ttl of the fence record, milliseconds

	wait   int64  // for so long in line, milliseconds
	member string // as this
	from   string // id that hands the lock over
}

// about has o ask about hold. An op is filled where it stays: copied from hand to hand it
// cost a sixth of the client's time (measured).
func (o *op) about(hold tierlock.Hold) {
	depth, fence, line := o.depth, o.fence, o.line // for their room
	*o = op{}
	o.depth, o.fence, o.line = depth, fence, line
	o.of, o.key, o.ttl, o.entry = hold.Key, hold.Key.String(), hold.TTL.Milliseconds(), hold.Entry
	hold.ID.AppendSecret(o.id[:0])
	if o.entry != 0 {
		o.deepen()
	}
}

// The three below add one of the records beside its lock.
func (o *op) deepen() {
	o.shape |= shapeEntry
	o.depth = o.depth.beside(o.key, "depth")
}

func (o *op) fenced() {
	o.shape |= shapeFenced
	o.fence = o.fence.beside(o.key, "fence")
}

func (o *op) lined() {
	o.shape |= shapeLine
	o.line = o.line.beside(o.key, "wait")
}

// name is that of a record beside a lock. It is written where the last one stood.
type name []byte

func (n name) beside(key, what string) name {
	n = append(append(n[:0], '{'), key...)
	return append(append(n, "}:"...), what...)
}

// MarshalBinary is called by go-redis as it writes the request.
func (n *name) MarshalBinary() ([]byte, error) { return *n, nil }

// secret is a request id as it stands in the store.
type secret [32]byte

// MarshalBinary is called by go-redis as it writes the request.
func (s *secret) MarshalBinary() ([]byte, error) { return s[:], nil }

// keys and the args below add to the words of a call. They add pointers into the op:
// go-redis writes what a pointer points to, where each string or number put into an
// interface would be an allocation of its own (see decision 0007).
func (o *op) keys(words []any) []any {
	words = append(words, &o.key)
	if o.shape&shapeEntry != 0 {
		words = append(words, &o.depth)
	}
	if o.shape&shapeFenced != 0 {
		words = append(words, &o.fence)
	}
	if o.shape&shapeLine != 0 {
		words = append(words, &o.line)
	}
	return words
}

func acquireArgs(o *op, words []any) []any {
	words = append(words, o.shape, &o.id, &o.ttl, &o.limit)
	if o.shape&shapeFenced != 0 {
		words = append(words, &o.floor, &o.keep)
	}
	words = o.entryArg(words)
	if o.shape&shapeLine != 0 {
		words = append(words, &o.wait, &o.member)
	}
	return words
}

func releaseArgs(o *op, words []any) []any { return o.entryArg(append(words, o.shape, &o.id)) }
func renewArgs(o *op, words []any) []any   { return append(words, o.shape, &o.id, &o.ttl) }
func lookupArgs(o *op, words []any) []any  { return append(words, o.shape, &o.id) }
func mintArgs(o *op, words []any) []any    { return append(words, 0, &o.floor, &o.keep) }

func (o *op) entryArg(words []any) []any {
	if o.shape&shapeEntry == 0 {
		return words
	}
	return append(words, &o.entry)
}

// call is one call of a script, as go-redis is given it.
type call struct {
	script *script
	by     *functions // nil: it goes by EVALSHA
	asking bool       // right behind an ASKING
	words  []any      // EVALSHA, or FCALL, and what follows it
	ops    int
}

// call carries ops, which are of one group, to their place; its words are put into room.
func (s *script) call(to place, room []any, ops ...*op) call {
	words := append(room[:0], "evalsha", &s.sha, 0)
	by := to.node.functions.now()
	if by != nil {
		words[0], words[1] = "fcall", &s.function
	}
	for _, o := range ops {
		words = o.keys(words)
	}
	words[2] = len(words) - 3
	for _, o := range ops {
		words = s.args(o, words)
	}
	return call{script: s, by: by, asking: to.asking, words: words, ops: len(ops)}
}

// run calls the script by its name, and once by its body when the server does not know the
// name: it has restarted or was told to forget. Both happen before ctx's deadline.
func (c *call) run(ctx context.Context, client *redis.Client) *redis.Cmd {
	if c.asking {
		return pipelined(ctx, client, []*call{c})[0]
	}
	cmd := redis.NewCmd(ctx, c.words...)
	_ = client.Process(ctx, cmd)
	if c.unknown(ctx, cmd.Err()) {
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
		if one.unknown(ctx, cmds[i].Err()) {
			cmds[i] = one.byBody(ctx)
			one.join(ctx, pipe, cmds[i])
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx)
	}
	return cmds
}

// unknown tells whether err says that the server does not know the name. Then nothing has
// happened.
func (c *call) unknown(ctx context.Context, err error) bool {
	if c.by != nil {
		return c.by.unknown(ctx, err)
	}
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT ")
}
