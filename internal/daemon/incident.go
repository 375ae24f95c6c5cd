package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/incident"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// closedSource is a period of the events' topic, as package incident reads it.
type closedSource struct{ *kafkasource.Period }

// Partitions implements [incident.Closed].
func (s closedSource) Partitions() []incident.Partition {
	var out []incident.Partition
	for _, x := range s.Spans() {
		out = append(out, incident.Partition{Partition: x.Partition, Oldest: x.Oldest, From: x.From, To: x.To, Begins: x.Begins})
	}
	return out
}

// openEvents opens what was appended since from; it needs no group and commits nothing.
func (c *Config) openEvents(log *slog.Logger, from time.Time, partitions []int) (closedSource, error) {
	k := c.Audit.Kafka
	if k == nil {
		return closedSource{}, tierlock.Invalid("audit.kafka", "", "is required: the events are read from there")
	}
	conf, err := k.conf(c.Reconcile.topic(), log)
	if err != nil {
		return closedSource{}, prefixed("audit.kafka.", err)
	}
	p, err := kafkasource.NewPeriod(kafkasource.PeriodConfig{
		Config: kafkasource.Config{Brokers: k.Brokers, Topic: k.Topic, TLS: conf.TLS, SASL: conf.SASL, ClientID: "tierlock-report", Logger: log},
		From:   from, Partitions: partitions,
	})
	return closedSource{p}, err
}

// openFindings opens the findings and the hooks, of which only the checks are to be used;
// without a database there are no findings. Its caller releases what it returns, which is
// never nil; nothing remote is asked.
func (c *Config) openFindings(log *slog.Logger) (r *Reconciler, hooks map[string]reconcile.Hook, err error) {
	r = &Reconciler{base: base{cfg: *c, log: log}}
	if err := r.openDatabase(); err != nil {
		return r, nil, err
	}
	if len(c.Reconcile.Hooks) == 0 {
		return r, nil, nil
	}
	if err := r.openKafka(false); err != nil { // it says how a publishing hook reaches Kafka
		return r, nil, err
	}
	hooks, err = r.openHooks(r.kafka)
	return r, hooks, err
}

// store is where findings are kept, or nil: also where no job has run yet, and nothing is
// stored. It makes nothing: to look at a period needs no right but to read.
func (r *Reconciler) store(ctx context.Context) (incident.Store, error) {
	if r.table == nil {
		return nil, nil
	}
	_, _, err := r.table.Find(ctx, "")
	if errors.Is(err, reconcile.ErrNoTables) {
		r.log.WarnContext(ctx, "nothing is stored, as far as this database tells", slog.Any("reason", err))
		return nil, nil
	}
	return r.table, err
}

// longest is how long a hold of any chain may last.
func (c *Config) longest() time.Duration {
	longest := 10 * time.Minute
	for _, p := range c.Chains {
		longest = max(longest, p.MaxHold, p.TTL)
	}
	return longest
}

// blind tells what the chains' policies leave unrecorded.
func (c *Config) blind() (out []string) {
	for name, p := range c.Chains {
		switch p.Audit.Record {
		case audit.RecordDegraded:
			out = append(out, "chain "+name+" says audit: degraded: shared holds leave no event, so overlaps with them are not found")
		case audit.RecordOff:
			out = append(out, "chain "+name+" says audit: off: nothing but bypass leaves an event")
		}
	}
	slices.Sort(out)
	return out
}

// clockSlack is how much earlier than the longest hold reading begins: the broker's and the
// processes' clocks do not agree.
const clockSlack = time.Minute

// since is where reading begins so that every hold of the period from t on is known whole.
func (c *Config) since(t time.Time) time.Time { return t.Add(-c.longest() - clockSlack) }

// replaceFile writes a file whole or not at all, and is on the disk when it returns.
// fresh: there must be none yet.
func replaceFile(path string, text []byte, fresh bool) (err error) {
	if _, err := os.Lstat(path); fresh && err == nil {
		return errThere(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

func errThere(path string) error {
	return tierlock.Invalid("out", path, "is there already: a report is not written over another")
}

// syncFolder makes a rename durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
