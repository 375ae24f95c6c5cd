// Package faultproxy BREAKS the way to a server on purpose: a TCP proxy inside the process
// whose replies can be made late and whose connections can be cut.
package faultproxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

const late = "late"

// Proxy stands between clients and one server. Addr may be called from any goroutine, the
// faults from one at a time.
type Proxy struct {
	proxy *toxiproxy.Proxy
	addr  string // read by everybody, while proxy writes its own copy at each start
	delay time.Duration
}

// Start listens on a free loopback port and passes everything on to upstream.
func Start(upstream string) (*Proxy, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{proxy: toxiproxy.NewProxy(server, "store", "127.0.0.1:0", upstream)}
	if err := p.proxy.Start(); err != nil {
		return nil, fmt.Errorf("start the fault proxy: %w", err)
	}
	p.addr = p.proxy.Listen
	return p, nil
}

// Addr is what clients connect to; it stays the same over Cut and Restore.
func (p *Proxy) Addr() string { return p.addr }

// Delay makes every reply come d later; requests still arrive at once, so that the server
// does what its client no longer waits for. Zero ends it.
func (p *Proxy) Delay(ctx context.Context, d time.Duration) error {
	if p.delay != 0 {
		if err := p.proxy.Toxics.RemoveToxic(ctx, late); err != nil {
			return fmt.Errorf("end the delay: %w", err)
		}
	}
	p.delay = d
	if d == 0 {
		return nil
	}
	toxic := fmt.Sprintf(`{"name":%q,"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, late, d.Milliseconds())
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		return fmt.Errorf("delay replies: %w", err)
	}
	return nil
}

// Cut closes every connection and refuses new ones.
func (p *Proxy) Cut() { p.proxy.Stop() }

// Restore listens again where it did before.
func (p *Proxy) Restore() error {
	if err := p.proxy.Start(); err != nil {
		return fmt.Errorf("restore the connection: %w", err)
	}
	return nil
}
