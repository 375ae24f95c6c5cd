package daemon

import (
	"context"
	"maps"
	"slices"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
)

// doctorPolicy finds what is allowed and yet rarely meant. What is wrong was refused when
// the file was read.
func (c *Config) doctorPolicy(_ context.Context, e *examiner) {
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		p := c.Chains[name]
		before := len(e.found)
		c.doctorChain(e, name, &p)
		if len(e.found) == before {
			e.ok(name, "%s, lost work: %s", p.Ladder.Class, p.OnLost)
		}
	}
	if s := c.Switch; s.Nacos == nil && s.HTTP == nil && s.File == "" {
		e.warn("switch", "configure switch.nacos, switch.http or switch.file", "there is none: nobody can order a tier by hand")
	} else if s.LastGood == "" {
		e.warn("last_good", "set switch.last_good to a file on this host", "a daemon that starts while the switch's source is away follows no order")
	}
	if c.Audit.Dir != "" && c.Audit.Kafka == nil {
		e.warn("audit.kafka", "configure audit.kafka, or collect the spools with tierlock spool dump",
			"there is none: what was held stays on this host, and nothing reconciles it")
	}
	if c.Listen.Remote {
		e.warn("listen", "see that something in front of it asks who calls", "remote is allowed, and nobody is asked for a password")
	}
}

func (c *Config) doctorChain(e *examiner, name string, p *gateway.Policy) {
	weak := p.Ladder.Class == degrade.ClassWeak
	if weak && p.Audit.Record == audit.RecordOff {
		e.warn(name, "set chains."+name+".audit to all", "may step down and records nothing: overlaps will never be found")
	}
	if p.Audit.OnFull == audit.Shed && p.Audit.Record != audit.RecordOff {
		e.warn(name, "set chains."+name+".on_full to reject or block", "grants without a record when the disk is full (on_full: shed)")
	}
	if p.Ladder.Observe {
		e.warn(name, "set chains."+name+".observe to false when you have seen enough", "its ladder only watches: the chain waits for its store, whatever its health")
	}
	if !weak && !p.Fencing {
		e.warn(name, "set chains."+name+".fencing to true, and compare tokens in the resource", "strong without a token: a holder that slept past its ttl cannot be refused")
	}
	if p.Wait > 0 && p.Wait < p.Attempt {
		e.warn(name, "raise chains."+name+".wait, or lower attempt", "waits %v, less than one attempt (%v): a slow answer is never waited for", p.Wait, p.Attempt)
	}
	if weak && !p.Fencing && p.OnLost == gateway.Fence {
		e.warn(name, "set chains."+name+".fencing to true", "lost work is to be fenced off (on_lost: fence), and its grants carry no token")
	}
}
