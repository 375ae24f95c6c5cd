package daemon

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
)

// functionsTimeout bounds the whole command: a person waits for it.
const functionsTimeout = 10 * time.Second

const functionsUsage = `functions ls|load|rm --redis ADDR[,ADDR…] [flags]
       tierlock functions ls|load|rm -c FILE [--store NAME] [flags]

ls tells which of the lock's functions each Redis master has; load puts those of this
release there, and rm takes them away. Needed only for stores with functions: true.

`

// functionsOptions are the flags of functions.
type functionsOptions struct {
	fs       *flag.FlagSet
	format   *string
	redis    string
	file     string
	store    string
	sentinel string
	cluster  bool
	username string
	password Secret
	tls      bool
	ca       string
	force    bool
}

func (p Process) functionsFlags() *functionsOptions {
	o := &functionsOptions{fs: p.flags("functions", functionsUsage)}
	o.fs.StringVar(&o.redis, "redis", "", "`addresses` of Redis, as stores.<name>.addrs")
	o.fs.StringVar(&o.file, "c", "", "configuration `file` that has the store")
	o.fs.StringVar(&o.store, "store", "", "its `name` there, where there are several")
	o.fs.StringVar(&o.sentinel, "sentinel", "", "the addresses are sentinels' of the master with this `name`")
	o.fs.BoolVar(&o.cluster, "cluster", false, "the addresses are of a Cluster")
	o.fs.StringVar(&o.username, "username", "", "ACL `user`; this and what follows go with --redis")
	o.fs.StringVar(&o.password.Env, "password-env", "", "`name` of the variable that holds the password")
	o.fs.StringVar(&o.password.File, "password-file", "", "or the `file`")
	o.fs.BoolVar(&o.tls, "tls", false, "speak TLS")
	o.fs.StringVar(&o.ca, "ca-file", "", "authorities to believe, a PEM `file`; with --tls")
	o.fs.BoolVar(&o.force, "force", false, "load over the functions of a newer release")
	o.format = output(o.fs)
	return o
}

// conf is the store that the flags name.
func (o *functionsOptions) conf() (StoreConfig, error) {
	switch {
	case (o.redis == "") == (o.file == ""):
		return StoreConfig{}, tierlock.Invalid("--redis", o.redis, "want --redis or -c")
	case o.file == "":
		c := StoreConfig{Kind: "redis", Addrs: strings.Split(o.redis, ","), Cluster: o.cluster, Username: o.username, Password: o.password}
		if o.sentinel != "" {
			c.Sentinel = &Sentinel{Master: o.sentinel}
		}
		if o.tls || o.ca != "" {
			c.TLS = &TLSConfig{CA: o.ca}
		}
		return c, nil
	}
	c, err := Load(o.file)
	if err != nil {
		return StoreConfig{}, err
	}
	names := slices.Sorted(maps.Keys(c.Stores))
	if o.store == "" && len(names) == 1 {
		o.store = names[0]
	}
	store, ok := c.Stores[o.store]
	if !ok {
		return StoreConfig{}, tierlock.Invalid("--store", o.store, "want one of "+strings.Join(names, ", "))
	}
	return store, nil
}

// Functions lists, loads or removes the library of functions on every Redis master.
func (p Process) Functions(ctx context.Context, args []string) int {
	o := p.functionsFlags()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		if code, ok := p.parse(o.fs, args, 0); !ok {
			return code
		}
		return p.misused(o.fs, "want ls, load or rm")
	}
	what, args := args[0], args[1:]
	if what != "ls" && what != "load" && what != "rm" {
		return p.misused(o.fs, fmt.Sprintf("want ls, load or rm, got %q", what))
	}
	if code, ok := p.parse(o.fs, args, 0); !ok {
		return code
	}
	masters, err := o.run(ctx, what)
	if err != nil {
		return p.fail(*o.format, err)
	}
	return p.showMasters(*o.format, what, masters)
}

func (p Process) misused(fs *flag.FlagSet, why string) int {
	fmt.Fprintf(p.Stderr, "tierlock %s: %s\n", fs.Name(), why)
	fs.Usage()
	return ExitUsage
}

func (o *functionsOptions) run(ctx context.Context, what string) ([]redisstore.LibraryState, error) {
	c, err := o.conf()
	if err != nil {
		return nil, err
	}
	conf, err := c.redis(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	conf.Dial = functionsTimeout / 2
	store, err := redisstore.New(conf)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeout(ctx, functionsTimeout)
	defer cancel()
	switch what {
	case "load":
		return store.LoadLibrary(ctx, o.force)
	case "rm":
		return store.RemoveLibrary(ctx)
	}
	return store.Libraries(ctx)
}

// master is a Redis master as the command shows it.
type master struct {
	Addr      string   `json:"addr"`
	Version   int      `json:"version"` // of its library; 0: none
	Current   bool     `json:"current"` // it has the functions of this binary
	Functions []string `json:"functions"`
	Error     string   `json:"error,omitempty"`
}

// showMasters prints what each master has; one that could not be served is an error.
func (p Process) showMasters(format, what string, states []redisstore.LibraryState) int {
	code := ExitOK
	masters := []master{}
	for _, s := range states {
		m := master{Addr: s.Addr, Version: s.Version, Current: s.Current, Functions: append([]string{}, s.Functions...)}
		if s.Err != nil {
			m.Error, code = s.Err.Error(), ExitError
		}
		masters = append(masters, m)
	}
	if format == "json" {
		_ = encoder(p.Stdout).Encode(struct {
			Library string   `json:"library"`
			Version int      `json:"version"` // of this binary's
			Masters []master `json:"masters"`
		}{"tierlock", redisstore.LibraryVersion, masters})
		return code
	}
	for _, m := range masters {
		switch {
		case m.Error != "":
			fmt.Fprintf(p.Stderr, "tierlock functions %s: %s: %s\n", what, m.Addr, m.Error)
		case m.Version == 0:
			fmt.Fprintf(p.Stdout, "%-21s none\n", m.Addr)
		default:
			fmt.Fprintf(p.Stdout, "%-21s version %d, %s\n", m.Addr, m.Version, standing(m))
			for _, name := range m.Functions {
				fmt.Fprintln(p.Stdout, "  "+name)
			}
		}
	}
	return code
}

func standing(m master) string {
	switch {
	case m.Current:
		return "current"
	case m.Version > redisstore.LibraryVersion:
		return "of a newer release"
	}
	return "of another release"
}
