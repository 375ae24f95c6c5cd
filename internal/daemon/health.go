package daemon

import (
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/api"
	"github.com/tierlock/tierlock/reconcile"
)

// The statuses of /healthz.
const (
	statusOK       = "ok"
	statusDegraded = "degraded"
)

// tierRefused stands for a tier where new requests get none.
const tierRefused = "refused"

// health is the body of /healthz: where every chain stands and why.
type health struct {
	switchHealth
	InDoubt int           `json:"in_doubt"`
	Chains  []chainHealth `json:"chains"`
	Spool   *spoolHealth  `json:"spool,omitempty"`

	Troubles []reconcile.Trouble `json:"troubles,omitempty"` // of the reconcile job: stores and hooks that fail or hang
}

type chainHealth struct {
	Chain  string           `json:"chain"`
	Class  string           `json:"class"`
	Tier   string           `json:"tier"` // refused: new requests get none
	State  string           `json:"state"`
	Why    string           `json:"reason,omitempty"`
	Since  time.Time        `json:"since,omitzero"`
	Held   int64            `json:"held"`
	Order  *orderHealth     `json:"order,omitempty"`
	DryRun *rehearsalHealth `json:"dry_run,omitempty"`
}

type orderHealth struct {
	Mode   string    `json:"mode"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
}

type spoolHealth struct {
	Unsent   uint64    `json:"unsent"`
	Oldest   time.Time `json:"oldest,omitzero"`
	Bytes    int64     `json:"bytes"`
	Quota    int64     `json:"quota_bytes"`
	Writable bool      `json:"writable"`
	Damaged  uint64    `json:"damaged"`    // events that could not be read back, since the start
	Torn     int64     `json:"torn_bytes"` // cut off the end at the start; nobody was told of them
	Why      string    `json:"reason,omitempty"`
}

// healthOf puts together what /healthz shows. log may be nil.
func healthOf(version string, s gateway.Status, orders switchHealth, log *audit.Log) api.Health {
	h := health{switchHealth: orders, InDoubt: s.InDoubt}
	status := statusOK
	for i := range s.Chains {
		c := healthOfChain(&s.Chains[i])
		if c.Tier != tierlock.Shared.String() || c.State != degrade.Normal.String() {
			status = statusDegraded
		}
		h.Chains = append(h.Chains, c)
	}
	if log != nil {
		if h.Spool = healthOfSpool(log.Stats()); h.Spool.Why != "" {
			status = statusDegraded
		}
	}
	return api.Health{Status: status, Version: version, Details: h}
}

// troubled adds what fails or hangs in the reconcile job.
func troubled(h api.Health, troubles []reconcile.Trouble) api.Health {
	if details, ok := h.Details.(health); ok && len(troubles) > 0 {
		details.Troubles = troubles
		h.Status, h.Details = statusDegraded, details
	}
	return h
}

// healthOfSpool has a reason where the spool is not as it should be.
func healthOfSpool(st audit.Stats) *spoolHealth {
	h := &spoolHealth{
		Unsent: st.Backlog(), Oldest: st.Oldest, Bytes: st.Bytes, Quota: st.Quota, Writable: !st.Full && !st.Failed,
		Damaged: st.Damaged, Torn: st.TornBytes,
	}
	switch {
	case st.Failed:
		h.Why = "a write has failed"
	case st.Full:
		h.Why = "full"
	case st.Damaged > 0:
		h.Why = "events on the disk could not be read back"
	}
	return h
}

// healthOfChain tells of the chain's worst target.
func healthOfChain(c *gateway.ChainStatus) chainHealth {
	h := chainHealth{Chain: c.Chain, Class: c.Class.String(), Tier: tierRefused, State: degrade.Normal.String(), Held: c.Live}
	if t := c.Tier(); t != 0 {
		h.Tier = t.String()
	}
	for _, t := range c.Targets {
		if t.State != degrade.Normal || t.Tier == 0 || t.Tier == c.Tier() {
			h.State, h.Why, h.Since = t.State.String(), string(t.Reason), t.Since
		}
		if t.Tier == 0 {
			break
		}
	}
	h.Order, h.DryRun = orderOf(c.Order), rehearsalOf(c.DryRun)
	return h
}
