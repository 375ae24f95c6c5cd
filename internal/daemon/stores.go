package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
)

// store is what every kind opens as.
type store interface {
	tierlock.Backend
	io.Closer
}

// open makes a store of its kind; it does no I/O. A new kind is one case here.
func (c StoreConfig) open(log *slog.Logger) (store, error) {
	switch c.Kind {
	case "redis":
		conf, err := c.redis(log)
		if err != nil {
			return nil, err
		}
		return redisstore.New(conf)
	}
	return nil, tierlock.Invalid("kind", c.Kind, "want redis")
}

// check reports what open would, without opening.
func (c StoreConfig) check() error {
	switch c.Kind {
	case "redis":
		conf, err := c.redis(nil)
		return errors.Join(err, conf.Validate())
	}
	return tierlock.Invalid("kind", c.Kind, "want redis")
}

func (c StoreConfig) redis(log *slog.Logger) (redisstore.Config, error) {
	password, err := c.Password.value()
	conf, tlsErr := c.TLS.load()
	if err != nil {
		password = "unreadable" // one fault is enough: not "is missing" on top
	}
	sentinel, sentinelErr := c.Sentinel.load()
	store := redisstore.Config{
		Addrs: c.Addrs, Sentinel: sentinel, Cluster: c.Cluster, DB: c.DB, Username: c.Username, Password: password, TLS: conf,
		Wire: c.Wire, PoolSize: c.PoolSize, Timeout: c.Timeout, Functions: c.Functions, Logger: log,
	}
	if c.Password.File != "" { // may hold another one tomorrow
		store.Username, store.Password = "", ""
		store.Credentials = c.credentials
	}
	return store, errors.Join(err, tlsErr, sentinelErr)
}

// load reads the password; nil is no sentinel.
func (s *Sentinel) load() (*redisstore.SentinelConfig, error) {
	if s == nil {
		return nil, nil
	}
	password, err := s.Password.value()
	if err != nil {
		password = "unreadable" // one fault is enough here too
	}
	return &redisstore.SentinelConfig{Master: s.Master, Username: s.Username, Password: password}, prefixed("sentinel.", err)
}

// credentials reads the password's file as it is now.
func (c StoreConfig) credentials(context.Context) (username, password string, err error) {
	password, err = c.Password.value()
	return c.Username, password, err
}
