//go:build !nodemo

package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/demo/memkafka"
	"github.com/tierlock/tierlock/internal/demo/memredis"
	"github.com/tierlock/tierlock/internal/demo/sqlite"
	"github.com/tierlock/tierlock/internal/postgres"
	"github.com/tierlock/tierlock/internal/way"
	"github.com/tierlock/tierlock/reconcile"
)

const partitions = 12 // of the event topic, as the product's default

// stage is what the story runs on: stand-ins inside the process, or real ones.
type stage struct {
	names map[string]string // what each part is, for the person watching

	dir   string // for spools, the switch file and the embedded database
	redis string // the store itself, past the proxy
	proxy *way.Way

	kafka []string
	topic string // of this run alone, so that a real Kafka may hold others
	group string

	db      *sql.DB
	dialect guard.Dialect
	tables  reconcile.Dialect // the same, in reconcile's words

	nacos  string // empty: the switch is a file
	dataID string // of this run alone: a real config centre may hold a real switch

	closers []func(context.Context) error
}

// setStage starts or reaches everything that o asks for. On an error nothing is left
// running.
func setStage(ctx context.Context, o options, log *slog.Logger) (s *stage, err error) {
	run := strconv.FormatInt(time.Now().UnixMilli(), 36)
	s = &stage{
		names: map[string]string{}, topic: "tierlock.events.v1.demo-" + run, group: "tierlock-demo-" + run,
		nacos: o.nacos, dataID: "tierlock.switch.demo-" + run,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
			s = nil
		}
	}()
	if s.dir, err = os.MkdirTemp("", "tierlock-demo-"); err != nil {
		return s, err
	}
	s.onClose(func(context.Context) error { return os.RemoveAll(s.dir) })
	if err := s.startRedis(o, log); err != nil {
		return s, err
	}
	if err := s.startKafka(ctx, o); err != nil {
		return s, err
	}
	if err := s.openDatabase(ctx, o, "tierlock_demo_"+run); err != nil {
		return s, err
	}
	s.names["switch"] = "a file"
	if o.nacos != "" {
		s.names["switch"] = "Nacos at " + o.nacos
	}
	return s, nil
}

func (s *stage) onClose(f func(context.Context) error) { s.closers = append(s.closers, f) }

// close ends what was started, the last first.
func (s *stage) close(ctx context.Context) error { return closeAll(ctx, &s.closers) }

func (s *stage) startRedis(o options, log *slog.Logger) error {
	s.redis, s.names["redis"] = o.redis, "Redis at "+o.redis
	if o.redis == "" {
		mem, err := memredis.Start(log)
		if err != nil {
			return err
		}
		s.onClose(func(context.Context) error { mem.Close(); return nil })
		s.redis, s.names["redis"] = mem.Addr(), "a stand-in inside this process"
	}
	proxy, err := way.To(s.redis)
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { proxy.Cut(); return nil })
	s.proxy = proxy
	return nil
}

func (s *stage) startKafka(ctx context.Context, o options) error {
	s.kafka, s.names["kafka"] = []string{o.kafka}, "Kafka at "+o.kafka
	if o.kafka == "" {
		mem, err := memkafka.Start()
		if err != nil {
			return err
		}
		s.onClose(func(context.Context) error { mem.Close(); return nil })
		s.kafka, s.names["kafka"] = mem.Addrs(), "a stand-in inside this process"
	}
	sink, err := s.sink()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := sink.EnsureTopics(ctx); err != nil {
		return errors.Join(fmt.Errorf("create the demo's topics: %w", err), sink.Close())
	}
	return sink.Close()
}

// sink is a fresh way into the event topic; each producer has its own.
func (s *stage) sink() (*kafkasink.Sink, error) {
	return kafkasink.New(kafkasink.Config{
		Brokers: s.kafka, Topic: s.topic, DLQ: s.topic + ".dlq", Findings: s.topic + ".findings", Partitions: partitions,
	})
}

func (s *stage) openDatabase(ctx context.Context, o options, schema string) error {
	if o.dsn == "" {
		db, err := sqlite.Open(s.dir)
		if err != nil {
			return err
		}
		s.onClose(func(context.Context) error { return db.Close() })
		s.db, s.dialect, s.tables, s.names["database"] = db, guard.SQLite, reconcile.SQLite, "SQLite inside this process"
		return nil
	}
	db, drop, err := postgres.OpenSchema(ctx, o.dsn, schema)
	if err != nil {
		return err
	}
	s.onClose(drop)
	s.db, s.dialect, s.tables, s.names["database"] = db, guard.Postgres, reconcile.Postgres, "PostgreSQL, schema "+schema
	return nil
}

func (s *stage) switchFile() string { return filepath.Join(s.dir, "switch.yaml") }
