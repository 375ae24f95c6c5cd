package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/signals"
)

// The defaults of fields whose package has none of its own.
const (
	defaultService = "tierlock"
	defaultData    = "127.0.0.1:7070"
	defaultAdmin   = "127.0.0.1:7071"
	defaultGrace   = 10 * time.Second
	defaultReport  = "127.0.0.1:7072"
)

var (
	chainName = regexp.MustCompile(`^[a-z0-9_-]+$`)
	wireName  = regexp.MustCompile(`^[a-zA-Z0-9_:.-]+$`)
)

// faults collects what is wrong, under a path.
type faults struct{ errs []error }

func (f *faults) add(field, value, rule string) {
	f.errs = append(f.errs, tierlock.Invalid(field, value, rule))
}

// under takes over err's faults with prefix before their fields.
func (f *faults) under(prefix string, err error) { f.errs = append(f.errs, prefixed(prefix, err)) }

func prefixed(prefix string, err error) error {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case nil:
		return nil
	case *tierlock.InvalidError:
		return tierlock.Invalid(prefix+e.Field, e.Value, e.Rule)
	case interface{ Unwrap() []error }:
		var errs []error
		for _, one := range e.Unwrap() {
			errs = append(errs, prefixed(prefix, one))
		}
		return errors.Join(errs...)
	}
	return fmt.Errorf("%s %w", prefix, err)
}

// Validate reports every fault at once. It reads files that the configuration names
// (passwords, certificates) and does no other I/O.
func (c *Config) Validate() error {
	var f faults
	c.checkNames(&f)
	c.checkStores(&f)
	c.checkSwitch(&f)
	c.checkAudit(&f)
	if c.Signals != (SignalsConfig{}) {
		f.under("signals.", signals.Config{Path: c.Signals.File, MaxBytes: c.Signals.MaxBytes}.Validate())
	}
	c.Listen.check(&f)
	c.Log.check(&f)
	c.checkChains(&f)
	c.Listen.checkAddr(&f, "reconcile.listen", or(c.Reconcile.Listen, defaultReport))
	c.Reconcile.check(&f)
	return errors.Join(f.errs...)
}

func (c *Config) checkNames(f *faults) {
	if c.Service != "" && !wireName.MatchString(c.Service) {
		f.add("service", c.Service, "want letters, digits and _ : . -")
	}
	if c.Instance != "" && !wireName.MatchString(c.Instance) {
		f.add("instance", c.Instance, "want letters, digits and _ : . -")
	}
	if c.Prefix != "" && !wireName.MatchString(c.Prefix) {
		f.add("prefix", c.Prefix, "want letters, digits and _ : . -")
	}
}

// producer is the name of this process in events.
func (c *Config) producer() string {
	instance := c.Instance
	if instance == "" {
		instance, _ = os.Hostname() // without one the service alone must do
	}
	return strings.Trim(or(c.Service, defaultService)+"-"+wireWord(instance), "-")
}

// wireWord replaces what a producer's name may not hold.
func wireWord(s string) string {
	return strings.Map(func(r rune) rune {
		if wireName.MatchString(string(r)) {
			return r
		}
		return '_'
	}, s)
}

func (c *Config) checkStores(f *faults) {
	if len(c.Stores) == 0 {
		f.add("stores", "", "want at least one")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Stores)) {
		f.under("stores."+name+".", c.Stores[name].check())
	}
}

// mostPoll is the default. With its jitter of a quarter and an answer of half a second a flip
// that nobody pushed arrives within 6 s, as promised.
const mostPoll = 4 * time.Second

func (c *Config) checkSwitch(f *faults) {
	s := c.Switch
	if s.Nacos != nil && (s.HTTP != nil || s.File != "") || s.HTTP != nil && s.File != "" {
		f.add("switch", "", "want one of nacos, http and file")
	}
	if s.Poll < 0 || s.Poll > mostPoll {
		f.add("switch.poll", s.Poll.String(), "want 0s (4s) to 4s: a flip whose push is lost is in force everywhere within 6 s")
	}
	if s.Nacos != nil {
		conf, err := s.Nacos.conf(nil)
		f.under("switch.nacos.", errors.Join(err, conf.Validate()))
	}
	if s.HTTP != nil {
		conf, err := s.HTTP.conf()
		f.under("switch.http.", errors.Join(err, conf.Validate()))
	}
}

func (c *Config) checkAudit(f *faults) {
	a := c.Audit
	if a.Dir == "" {
		for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
			if p := c.Chains[name]; p.Audit.Record != audit.RecordOff {
				f.add("audit.dir", "", "is required: chain "+name+" records its holds (or say audit: off there)")
				break
			}
		}
	}
	if a.Quota < 0 {
		f.add("audit.quota_bytes", strconv.FormatInt(a.Quota, 10), "want 0 (2 GiB) or more")
	}
	if a.Linger < 0 || a.Linger > time.Millisecond {
		f.add("audit.linger", a.Linger.String(), "want 0s to 1ms")
	}
	if a.Heartbeat < 0 {
		f.add("audit.heartbeat", a.Heartbeat.String(), "want 0s (5s) or more")
	}
	if d := a.Digest; d != nil {
		_, err := d.load()
		f.under("audit.", err)
		for _, name := range d.Chains {
			if _, ok := c.Chains[name]; !ok {
				f.add("audit.digest.chains", name, "is none of chains")
			}
		}
	}
	if a.Adopt != "" && (a.Kafka == nil || a.Dir == "") {
		f.add("audit.adopt", a.Adopt, "want dir and kafka beside it: what is adopted is forwarded there")
	}
	if a.Kafka != nil {
		conf, err := a.Kafka.conf(c.Reconcile.topic(), nil)
		f.under("audit.kafka.", err)
		f.under("audit.", conf.Validate()) // its fields begin with kafka
	}
}

func (l *ListenConfig) check(f *faults) {
	l.checkAddr(f, "listen.data", or(l.Data, defaultData))
	l.checkAddr(f, "listen.admin", or(l.Admin, defaultAdmin))
	if l.Grace < 0 {
		f.add("listen.grace", l.Grace.String(), "want 0s (10s) or more")
	}
}

// checkAddr refuses what is no address, and what others could reach unless remote is said.
func (l *ListenConfig) checkAddr(f *faults, field, addr string) {
	host, port, err := net.SplitHostPort(addr)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		f.add(field, addr, "want host:port, the port a whole number from 0 to 65535")
		return
	}
	if ip := net.ParseIP(host); !l.Remote && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		f.add(field, addr, "is not loopback, and nobody is asked for a password: say remote: true if something in front of it does")
	}
}

func (l *LogConfig) check(f *faults) {
	var level slog.Level
	if l.Level != "" && level.UnmarshalText([]byte(l.Level)) != nil {
		f.add("log.level", l.Level, "want debug, info, warn or error")
	}
	if l.Format != "" && l.Format != "text" && l.Format != "json" {
		f.add("log.format", l.Format, "want text or json")
	}
}

func (c *Config) checkChains(f *faults) {
	if len(c.Chains) == 0 {
		f.add("chains", "", "want at least one")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		p := c.Chains[name]
		at := "chains." + name + "."
		if !chainName.MatchString(name) {
			f.add("chains", name, "want a name of a-z 0-9 _ -")
		}
		f.under(at, p.Validate())
		if _, ok := c.Stores[p.Store]; p.Store != "" && !ok {
			f.add(at+"store", p.Store, "is none of stores")
		}
		if p.Store == "" && len(c.Stores) > 1 {
			f.add(at+"store", "", "is required where there are several stores")
		}
	}
}

// shortestQuiet is the least that the job may wait for a silent producer, or for a chain to be
// quiet: it looks that often.
const shortestQuiet = 100 * time.Millisecond

func (r *ReconcileConfig) check(f *faults) {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"idle", r.Idle}, {"quiet", r.Quiet}, {"lateness", r.Lateness}, {"hook_timeout", r.HookTimeout}, {"store_timeout", r.StoreTimeout}} {
		if d.value < 0 {
			f.add("reconcile."+d.field, d.value.String(), "want 0s (the default) or more")
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"idle", r.Idle}, {"quiet", r.Quiet}} {
		if d.value > 0 && d.value < shortestQuiet {
			f.add("reconcile."+d.field, d.value.String(), "want 0s (the default), or "+shortestQuiet.String()+" or more")
		}
	}
	if r.HookTimeout > time.Minute {
		f.add("reconcile.hook_timeout", r.HookTimeout.String(), "want at most 1m")
	}
	if r.StoreTimeout > time.Minute {
		f.add("reconcile.store_timeout", r.StoreTimeout.String(), "want at most 1m")
	}
	f.under("reconcile.", r.Rule.Validate())
	r.checkHooks(f)
	if d := r.Database; d != nil {
		if d.Driver != "postgres" {
			f.add("reconcile.database.driver", d.Driver, "want postgres")
		}
		if (d.DSNEnv == "") == (d.DSNFile == "") {
			f.add("reconcile.database.dsn_env", d.DSNEnv, "want dsn_env or dsn_file")
		}
	}
}

// or is v, or otherwise where v is zero.
func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
