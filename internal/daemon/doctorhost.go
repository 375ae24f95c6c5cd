package daemon

import (
	"context"
	"os"
	"regexp"
)

// ephemeral matches host names that a platform makes anew with each start: a container's
// id, and a pod of a Deployment.
var ephemeral = regexp.MustCompile(`^[0-9a-f]{12}$|-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// spareFiles are what the process opens besides connections to stores: segments, sockets
// of clients, brokers.
const spareFiles = 512

func (c *Config) doctorHost(_ context.Context, e *examiner) {
	host, err := os.Hostname()
	c.judgeName(e, host, err)
	c.judgeFiles(e)
}

// judgeName looks at the producer's name. Events and the spool carry it over restarts.
func (c *Config) judgeName(e *examiner, host string, err error) {
	switch {
	case c.Instance != "":
		e.ok("name", "events are told as %s", c.producer())
	case err != nil || host == "":
		e.warn("name", "set instance", "the host has no name, and instance is not set: two processes would tell their events as one")
	case host == "localhost":
		e.warn("name", "set instance", "the host is called localhost, as others are: events would be told as %s by all of them", c.producer())
	case ephemeral.MatchString(host):
		e.warn("name", "set instance to a name that stays (a StatefulSet has one), or audit.adopt, so that what a former start left is forwarded",
			"%s looks like a name that a platform makes anew with each start, and events are told under it", host)
	default:
		e.ok("name", "events are told as %s", c.producer())
	}
}

// judgeFiles compares the limit of open files with the connections that the stores may use.
func (c *Config) judgeFiles(e *examiner) {
	limit, known := fileLimit()
	if !known {
		return
	}
	need := uint64(spareFiles)
	for _, s := range c.Stores {
		need += 2*uint64(or(s.PoolSize, 64)) + 4
	}
	switch {
	case limit < need:
		e.fail("files", "raise the limit of open files (ulimit -n, LimitNOFILE) to 65536", "%d may be open, and stores and clients may need %d", limit, need)
	case limit < 4*need:
		e.warn("files", "raise the limit of open files (ulimit -n, LimitNOFILE) to 65536", "%d may be open; stores and a few hundred clients need %d", limit, need)
	default:
		e.ok("files", "%d may be open", limit)
	}
}
