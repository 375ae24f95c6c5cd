package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacossource"
)

// reopenEvery is how often a source that could not be opened is tried again; one poll.
const reopenEvery = 4 * time.Second

var _ switchcfg.Pusher = (*nacos)(nil)

// nacos is a Nacos source that need not be there at the start: a client certificate that
// is not mounted yet, or cannot be read, must not keep locks from being served. Until it
// can be opened every Fetch says why not, which the follower reports and logs.
type nacos struct {
	conf nacossource.Config

	mu     sync.Mutex
	source *nacossource.Source // guarded by mu; nil: not opened yet
}

// conf is the source's configuration.
func (n *NacosConfig) conf(log *slog.Logger) (nacossource.Config, error) {
	password, err := n.Password.value()
	c := nacossource.Config{
		Addr: n.Addr, Namespace: n.Namespace, Group: n.Group, DataID: n.DataID,
		Username: n.Username, Password: password, CacheDir: n.CacheDir, LogDir: n.LogDir, Logger: log,
	}
	if n.TLS != nil {
		c.TLS = nacossource.TLS{Enable: true, CA: n.TLS.CA, Cert: n.TLS.Cert, Key: n.TLS.Key}
	}
	return c, err
}

// open makes the source ready to be fetched from; it does no I/O.
func (n *NacosConfig) open(log *slog.Logger) (*nacos, error) {
	conf, err := n.conf(log)
	if err != nil {
		return nil, err
	}
	return &nacos{conf: conf}, conf.Validate()
}

// get opens the source, or tells why it cannot be opened now.
func (n *nacos) get() (*nacossource.Source, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.source != nil {
		return n.source, nil
	}
	source, err := nacossource.New(n.conf) // reads certificates, connects to nothing
	if err == nil {
		n.source = source
	}
	return source, err
}

// Fetch implements switchcfg.Source.
func (n *nacos) Fetch(ctx context.Context) ([]byte, error) {
	source, err := n.get()
	if err != nil {
		return nil, err
	}
	return source.Fetch(ctx)
}

// Watch implements switchcfg.Pusher.
func (n *nacos) Watch(ctx context.Context, wake func()) error {
	for {
		if source, err := n.get(); err == nil {
			return source.Watch(ctx, wake)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reopenEvery):
		}
	}
}

// Close ends the source, if it was ever opened, inside ctx.
func (n *nacos) Close(ctx context.Context) error {
	n.mu.Lock()
	source := n.source
	n.mu.Unlock()
	if source == nil {
		return nil
	}
	return source.Close(ctx)
}
