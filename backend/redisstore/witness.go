package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// witness is a sentinel, or a server of a Cluster as far as it is asked for the map.
type witness struct {
	addr   string
	dials  dialer
	client *redis.Client
}

func newWitness(cfg *Config, addr string) *witness {
	w := &witness{addr: addr}
	w.dials.open(*cfg)
	o := options(cfg, addr, &w.dials, 2)             // one may hang behind a silent server
	o.ReadTimeout, o.WriteTimeout = lookFor, lookFor // a push may take for ever, what comes before it not
	if cfg.Sentinel != nil {
		o.CredentialsProviderContext = nil
		o.Username, o.Password, o.DB = cfg.Sentinel.Username, cfg.Sentinel.Password, 0
	}
	w.client = redis.NewClient(o)
	return w
}

func (w *witness) close() {
	_ = w.client.Close()
	w.dials.close()
}

// about names the witness in an error of its own.
func (w *witness) about(err error) error { return errors.New(w.addr + ": " + err.Error()) }

// WitnessState is whether a configured address tells who serves what.
type WitnessState struct {
	Addr string
	Err  error // it does not, or it is a sentinel that could choose no new master; nil: all is well
}

// Witnesses asks each configured address, of a sentinel or a server of a Cluster, by
// itself: a store is content with one that answers. Of one server alone there are none.
func (s *Store) Witnesses(ctx context.Context) ([]WitnessState, error) {
	f, ok := s.servers.(*fleet)
	if !ok {
		return nil, nil
	}
	q, err := s.question(ctx)
	if err != nil {
		return nil, err
	}
	defer q.end()
	return each(s.cfg.Addrs, func(addr string) WitnessState {
		w := newWitness(f.cfg, addr)
		defer w.close()
		_, err := f.scout.ask(q.context(), w)
		if err == nil && s.cfg.Sentinel != nil {
			err = w.quorum(q.context(), s.cfg.Sentinel.Master)
		}
		return WitnessState{addr, err}
	}), nil
}

// quorum tells why the sentinels that this one hears of could not choose a new master. A
// user who may not ask hears nothing.
func (w *witness) quorum(ctx context.Context, master string) error {
	err := w.client.Do(ctx, "sentinel", "ckquorum", master).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "NOQUORUM") {
		return nil
	}
	return w.about(err)
}
