package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// session is what every verb has: its flags, a Redis, and the profiles that were asked for.
type session struct {
	flags   *flag.FlagSet
	stdout  io.Writer
	addr    string // of the Redis
	version string // of it
	json    bool   // wanted

	admin   *redis.Client // for questions about the server, never for what is measured
	hands   []*hand       // of the turn before, to be used again
	memFile string
	ends    []func() error
}

func newSession(verb string, stdout io.Writer) *session {
	return &session{flags: flag.NewFlagSet(verb, flag.ContinueOnError), stdout: stdout}
}

// start reads the flags, finds or starts the Redis and begins the profiles. check looks at
// the verb's own flags, before any I/O.
func (s *session) start(ctx context.Context, args []string, check func() error) error {
	s.flags.StringVar(&s.addr, "redis", "", "host:port of a Redis to use; empty: start redis-server")
	return s.startWith(args, check, func() error { return s.connect(ctx) })
}

// startAlone is start for what needs no Redis.
func (s *session) startAlone(args []string, check func() error) error {
	return s.startWith(args, check, func() error { return nil })
}

func (s *session) startWith(args []string, check, connect func() error) error {
	output := s.flags.String("output", "text", "text or json")
	cpuFile := s.flags.String("cpuprofile", "", "write a profile of this process's time to the file")
	s.flags.StringVar(&s.memFile, "memprofile", "", "write a profile of this process's allocations to the file")
	if err := s.flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return tierlock.Invalid("flags", strings.Join(args, " "), err.Error())
	}
	if *output != "text" && *output != "json" {
		return tierlock.Invalid("output", *output, "want text or json")
	}
	s.json = *output == "json"
	if err := check(); err != nil {
		return err
	}
	if s.memFile != "" {
		runtime.MemProfileRate = 4096 // bytes between samples: a pair allocates few
	}
	if err := connect(); err != nil {
		return errors.Join(err, s.end())
	}
	if *cpuFile != "" {
		if err := s.profile(*cpuFile); err != nil {
			return errors.Join(err, s.end())
		}
	}
	return nil
}

// connect starts redis-server where none was named, and asks the one to be used for its
// version.
func (s *session) connect(ctx context.Context) error {
	if s.addr == "" {
		server, err := startRedis(ctx)
		if err != nil {
			return err
		}
		s.ends = append(s.ends, server.stop)
		s.addr = server.addr
	}
	s.admin = goRedis(s.addr, 2)
	s.ends = append(s.ends, s.admin.Close)
	info, err := s.admin.InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	s.version = info["Server"]["redis_version"]
	return nil
}

func (s *session) profile(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	s.ends = append(s.ends, func() error { pprof.StopCPUProfile(); return file.Close() })
	return nil
}

// end writes the profiles and ends what start began, last first.
func (s *session) end() error {
	var errs []error
	for len(s.ends) > 0 {
		last := len(s.ends) - 1
		errs = append(errs, s.ends[last]())
		s.ends = s.ends[:last]
	}
	if s.memFile != "" {
		errs = append(errs, s.writeAllocations())
	}
	return errors.Join(errs...)
}

func (s *session) writeAllocations() error {
	file, err := os.Create(s.memFile)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

// print writes v as one line of JSON.
func (s *session) print(v any) error { return json.NewEncoder(s.stdout).Encode(v) }

// atLeastOne checks one number of a verb's flags.
func atLeastOne(field string, value int) error {
	if value < 1 {
		return tierlock.Invalid(field, strconv.Itoa(value), "want at least 1")
	}
	return nil
}

// numbers reads a list of numbers with commas, each at least least.
func numbers(field, list string, least int) ([]int, error) {
	var all []int
	for _, word := range strings.Split(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < least {
			return nil, tierlock.Invalid(field, word, "want numbers of at least "+strconv.Itoa(least)+", with commas")
		}
		all = append(all, n)
	}
	return all, nil
}

// chosen are those of all whose names stand in the list, with commas; all for an empty one.
func chosen[T any](list string, all []T, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var some []T
	for _, word := range strings.Split(list, ",") {
		before := len(some)
		for _, one := range all {
			if name(one) == word {
				some = append(some, one)
			}
		}
		if len(some) == before {
			return nil, tierlock.Invalid("only", word, "is the name of none")
		}
	}
	return some, nil
}
