package redisstore

import (
	"errors"

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
