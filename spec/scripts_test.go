package spec_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// scriptVector is one test of the scripts: the state before, calls with their replies, and
// the state after. README.md says what may stand where.
type scriptVector struct {
	Name   string
	Server map[string]string
	Before []record
	Calls  []struct {
		Script string
		Keys   []string
		Args   []string
		Reply  []any
		Error  string
	}
	After     []record
	Published []struct{ Channel, Message string }
}

// record is one key of the server; exactly one of the kinds is there.
type record struct {
	Key    string
	String *string
	Set    []string
	Hash   map[string]string
	Zset   map[string]any // scores
	TTL    any            `json:"ttl_ms"`
}

// caller runs a body by its name.
type caller func(t *testing.T, name string, keys []string, args []any) (any, error)

// Every vector, by scripts and by functions. The scripts of this folder are the ones that
// the store loads: both are compared with its library first.
func TestScriptVectors(t *testing.T) {
	servers.Need(t, "redis-server")
	bodies := scriptBodies(t)
	server := servers.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	store, err := redisstore.New(redisstore.Config{Addrs: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if states, err := store.LoadLibrary(t.Context(), false); err != nil || len(states) != 1 || !states[0].Current {
		t.Fatalf("load: %+v, %v", states, err)
	}
	for how, call := range map[string]caller{
		"script": func(t *testing.T, name string, keys []string, args []any) (any, error) {
			return client.Eval(t.Context(), bodies[name], keys, args...).Result()
		},
		"function": func(t *testing.T, name string, keys []string, args []any) (any, error) {
			sum := sha1.Sum([]byte(bodies[name]))
			return client.FCall(t.Context(), "tierlock_"+name+"_"+hex.EncodeToString(sum[:])[:8], keys, args...).Result()
		},
	} {
		for name := range bodies {
			for _, v := range vectors[[]scriptVector](t, "scripts/"+name+".json") {
				t.Run(how+"/"+name+"/"+v.Name, func(t *testing.T) { v.run(t, client, call) })
			}
		}
	}
}

// scriptBodies are the bodies that the store loads, by their names, after a look at whether
// those of this folder are the same.
func scriptBodies(t *testing.T) map[string]string {
	t.Helper()
	library := redisstore.Library()
	bodies := map[string]string{}
	for _, m := range regexp.MustCompile(`'tierlock_([a-z]+)_([0-9a-f]{8})'`).FindAllStringSubmatch(library, -1) {
		text, err := os.ReadFile("../backend/redisstore/" + m[1] + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		sum := sha1.Sum(text)
		if bodies[m[1]] = string(text); hex.EncodeToString(sum[:])[:8] != m[2] || !strings.Contains(library, "\n"+string(text)) {
			t.Errorf("%s.lua is not the script that the store runs", m[1])
		}
	}
	files, err := filepath.Glob("scripts/*.lua")
	if err != nil || len(files) < 4 || len(bodies) < len(files) {
		t.Fatalf("%d scripts here, %d in the store, %v", len(files), len(bodies), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != bodies[strings.TrimSuffix(filepath.Base(file), ".lua")] {
			t.Errorf("%s is not the script that the store runs", file)
		}
	}
	return bodies
}

func (v scriptVector) run(t *testing.T, client *redis.Client, call caller) {
	ctx := t.Context()
	if err := client.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	scene := scene{now: client.Time(ctx).Val()}
	for _, r := range v.Before {
		r.put(t, client, scene)
	}
	heard := client.PSubscribe(ctx, "*")
	defer heard.Close()
	if _, err := heard.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	for name, value := range v.Server {
		was := client.ConfigGet(ctx, name).Val()[name]
		if err := client.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
		defer client.ConfigSet(ctx, name, was)
	}
	for i, c := range v.Calls {
		args := make([]any, len(c.Args))
		for j, arg := range c.Args {
			args[j] = scene.text(t, arg)
		}
		got, err := call(t, c.Script, c.Keys, args)
		if c.Error != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.Error) {
				t.Errorf("call %d: %v, %v, want error %s", i+1, got, err, c.Error)
			}
			continue
		}
		text, _ := got.(string)
		reply := apart(text)
		if err != nil || len(reply) != len(c.Reply) {
			t.Errorf("call %d: %v, %v, want %v", i+1, got, err, c.Reply)
			continue
		}
		scene.reply = reply
		for j, want := range c.Reply {
			if !scene.matches(t, want, reply[j]) {
				t.Errorf("call %d: part %d is %v, want %v (all: %v)", i+1, j, reply[j], want, reply)
			}
		}
	}
	v.after(t, client, scene)
	for _, want := range v.Published {
		msg, err := heard.ReceiveTimeout(ctx, 5*time.Second)
		if m, ok := msg.(*redis.Message); err != nil || !ok || m.Channel != want.Channel || m.Payload != want.Message {
			t.Errorf("published %v, %v, want %v", msg, err, want)
		}
	}
	if err := client.Publish(ctx, "end", "").Err(); err != nil {
		t.Fatal(err)
	}
	if msg, err := heard.ReceiveTimeout(ctx, 5*time.Second); err != nil || msg.(*redis.Message).Channel != "end" {
		t.Errorf("published %v, %v, want no more", msg, err)
	}
}

// The server tells microseconds without leading zeros, and the script puts its time together
// from text: in the first tenth of a second, too, it is the time.
func TestReplyTellsTheServersTime(t *testing.T) {
	servers.Need(t, "redis-server")
	client := redis.NewClient(&redis.Options{Addr: servers.Redis(t).Addr(), DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	body := scriptBodies(t)["acquire"]
	for early := false; !early; time.Sleep(time.Millisecond) {
		before := client.Time(t.Context()).Val()
		reply, err := client.Eval(t.Context(), body, []string{"biz:order:lock:10086"}, "0", "6f3b0c5e9a1d47f28b0e6a5c3d2f1e09", "1", "0").Text()
		after := client.Time(t.Context()).Val()
		told, _ := apart(reply)[0].(int64)
		if err != nil || told < before.UnixMicro() || told > after.UnixMicro() {
			t.Fatalf("%q, %v, want a time from %d to %d", reply, err, before.UnixMicro(), after.UnixMicro())
		}
		early = told%1e6 < 1e5 && told%1e5 < 9e4 // five digits or fewer
	}
}

// apart is the parts of a reply as the vectors have them, or as many as could be read. It is
// written from lock.md alone, so that the store's own reading is not what it is held against,
// and as strict: the short form just where lock.md has it.
func apart(text string) []any {
	now, rest, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		return nil
	}
	parts := []any{n}
	op := regexp.MustCompile(`(?s)^(?:([1456])|([0-3]):(-?\d+):(\d+):(\d+):(.*))$`)
	for rest != "" {
		one := rest
		if len(rest) > 1 && rest[1] == ' ' {
			one = rest[:1]
		}
		m := op.FindStringSubmatch(one)
		if m == nil {
			return parts
		}
		if m[1] != "" {
			status, _ := strconv.ParseInt(m[1], 10, 64)
			depth := int64(0)
			if status == 1 {
				depth = 1
			}
			parts, rest = append(parts, status, int64(0), int64(0), depth), strings.TrimPrefix(rest[1:], " ")
			continue
		}
		status, _ := strconv.ParseInt(m[2], 10, 64)
		left, _ := strconv.ParseInt(m[3], 10, 64)
		depth, _ := strconv.ParseInt(m[4], 10, 64)
		length, _ := strconv.Atoi(m[5])
		if length > len(m[6]) || status == 1 && left == 0 && length == 0 {
			return parts
		}
		var word any = m[6][:length]
		if status == 1 || status == 2 { // a token, or none
			word, _ = strconv.ParseInt(m[6][:length], 10, 64)
		}
		parts = append(parts, status, left, word, depth)
		rest = strings.TrimPrefix(m[6][length:], " ")
	}
	return parts
}

// after compares what is on the server with the records that should be, no more no less.
func (v scriptVector) after(t *testing.T, client *redis.Client, scene scene) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.After {
		r.check(t, client, scene)
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == r.Key })
	}
	for _, key := range keys {
		t.Errorf("%s is there, too", key)
	}
}

func (r record) put(t *testing.T, client *redis.Client, scene scene) {
	t.Helper()
	ctx := t.Context()
	pipe := client.Pipeline()
	switch {
	case r.String != nil:
		pipe.Set(ctx, r.Key, *r.String, 0)
	case r.Set != nil:
		pipe.SAdd(ctx, r.Key, r.Set)
	case r.Hash != nil:
		pipe.HSet(ctx, r.Key, r.Hash)
	case r.Zset != nil:
		for member, score := range r.Zset {
			pipe.ZAdd(ctx, r.Key, redis.Z{Member: member, Score: scene.number(t, score)})
		}
	}
	if ttl, _ := r.TTL.(float64); ttl > 0 {
		pipe.PExpire(ctx, r.Key, time.Duration(ttl)*time.Millisecond)
	}
	if _, err := pipe.Exec(ctx); err != nil || pipe.Len() != 0 {
		t.Fatalf("%s: %v", r.Key, err)
	}
}

func (r record) check(t *testing.T, client *redis.Client, scene scene) {
	t.Helper()
	ctx := t.Context()
	switch {
	case r.String != nil:
		if got, err := client.Get(ctx, r.Key).Result(); err != nil || got != scene.text(t, *r.String) {
			t.Errorf("%s holds %q, %v, want %q", r.Key, got, err, scene.text(t, *r.String))
		}
	case r.Set != nil:
		got, err := client.SMembers(ctx, r.Key).Result()
		if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(r.Set))) {
			t.Errorf("%s holds %q, %v, want %q", r.Key, got, err, r.Set)
		}
	case r.Hash != nil:
		got, err := client.HGetAll(ctx, r.Key).Result()
		ok := err == nil && len(got) == len(r.Hash)
		for field, want := range r.Hash {
			ok = ok && got[field] == scene.text(t, want)
		}
		if !ok {
			t.Errorf("%s holds %v, %v, want %v", r.Key, got, err, r.Hash)
		}
	case r.Zset != nil:
		got, err := client.ZRangeWithScores(ctx, r.Key, 0, -1).Result()
		ok := err == nil && len(got) == len(r.Zset)
		for _, z := range got {
			want, there := r.Zset[z.Member.(string)]
			ok = ok && there && scene.number(t, want) == z.Score
		}
		if !ok {
			t.Errorf("%s holds %v, %v, want %v", r.Key, got, err, r.Zset)
		}
	default:
		t.Errorf("%s: the vector names no value", r.Key)
	}
	left := client.PTTL(ctx, r.Key).Val() // -1 is nanoseconds here
	switch want := r.TTL.(type) {
	case float64:
		if left != time.Duration(want) {
			t.Errorf("%s lasts %v, want it without an end", r.Key, left)
		}
	case []any:
		if low, high := want[0].(float64), want[1].(float64); left < time.Duration(low)*time.Millisecond || left > time.Duration(high)*time.Millisecond {
			t.Errorf("%s lasts %v, want %v ms", r.Key, left, want)
		}
	default:
		t.Errorf("%s: the vector names no ttl", r.Key)
	}
}

// scene is what the words with a dollar stand for.
type scene struct {
	now   time.Time // the server's, before the first call
	reply []any     // of the last call
}

// word is what stands for a number: the server's time in microseconds or a part of a
// reply, maybe divided, maybe with something added.
var word = regexp.MustCompile(`^\$(now|reply:(\d+))(?:/(\d+))?([+-]\d+)?$`)

// text is s with the word in it replaced.
func (c scene) text(t *testing.T, s string) string {
	t.Helper()
	if !strings.HasPrefix(s, "$") {
		return s
	}
	m := word.FindStringSubmatch(s)
	if m == nil {
		t.Fatalf("%s is no word of a vector", s)
	}
	n := c.now.UnixMicro()
	if m[2] != "" {
		i, _ := strconv.Atoi(m[2])
		if i >= len(c.reply) {
			t.Fatalf("%s: the reply is %v", s, c.reply)
		}
		n, _ = c.reply[i].(int64)
	}
	if m[3] != "" {
		by, _ := strconv.ParseInt(m[3], 10, 64)
		n /= by
	}
	if m[4] != "" {
		more, _ := strconv.ParseInt(m[4], 10, 64)
		n += more
	}
	return strconv.FormatInt(n, 10)
}

func (c scene) number(t *testing.T, v any) float64 {
	t.Helper()
	if n, ok := v.(float64); ok {
		return n
	}
	n, err := strconv.ParseFloat(c.text(t, fmt.Sprint(v)), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// matches tells whether a part of a reply is what the vector wants.
func (c scene) matches(t *testing.T, want, got any) bool {
	t.Helper()
	switch want := want.(type) {
	case string:
		if want == "$now" { // any time since
			n, ok := got.(int64)
			return ok && n >= c.now.UnixMicro() && n < c.now.Add(time.Minute).UnixMicro()
		}
		if strings.HasPrefix(want, "$") {
			return fmt.Sprint(got) == c.text(t, want)
		}
		return got == want
	case float64:
		n, ok := got.(int64)
		return ok && n == int64(want)
	case map[string]any:
		if begins, ok := want["begins"].(string); ok {
			s, ok := got.(string)
			return ok && strings.HasPrefix(s, begins)
		}
		bounds, _ := want["between"].([]any)
		n, ok := got.(int64)
		return ok && len(bounds) == 2 && n >= int64(c.number(t, bounds[0])) && n <= int64(c.number(t, bounds[1]))
	}
	return false
}
