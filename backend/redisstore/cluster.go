package redisstore

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// maxPointers is how many times a question follows at once where servers point. Two that
// point at each other have not heard of a change yet; then it waits a little each time.
const maxPointers = 3

// firstPause is how long a question waits before it is put again to servers that have not
// settled; each next pause is twice as long, up to maxPause.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = 40 * time.Millisecond
)

// newCluster is a topology of a shard for each master.
func newCluster(cfg *Config, probe tierlock.Key) *fleet {
	f := newFleet(cfg, probe)
	f.scout.ask = askCluster
	return f
}

// askCluster asks in one round trip for the slots and for the epoch of the server's
// knowledge: what happened in a Cluster without a server has a higher one. A user who may
// not ask for the epoch is told of changes all the same, perhaps by one who knows less.
func askCluster(ctx context.Context, w *witness) (report, error) {
	var ranges *redis.SliceCmd
	var info *redis.StringCmd
	_, _ = w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		ranges = redis.NewSliceCmd(ctx, "cluster", "slots")
		info = redis.NewStringCmd(ctx, "cluster", "info")
		_ = p.Process(ctx, ranges)
		return p.Process(ctx, info)
	})
	if err := ranges.Err(); err != nil {
		return report{}, w.about(err)
	}
	epoch, _ := strconv.ParseInt(infoField(info.Val(), "cluster_current_epoch"), 10, 64)
	r := report{epoch: epoch}
	for _, one := range ranges.Val() {
		if !r.add(one, w.addr) {
			return report{}, w.about(errors.New("CLUSTER SLOTS has another shape than expected"))
		}
	}
	if len(r.spans) == 0 {
		return report{}, w.about(errors.New("it knows nobody who serves a slot"))
	}
	slices.SortFunc(r.spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	return r, nil
}

// add takes in one entry of CLUSTER SLOTS: first, last, the master, replicas.
func (r *report) add(entry any, witness string) bool {
	parts, _ := entry.([]any)
	if len(parts) < 3 {
		return false
	}
	first, ok1 := parts[0].(int64)
	last, ok2 := parts[1].(int64)
	if !ok1 || !ok2 || first < 0 || last >= slots || first > last {
		return false
	}
	for i, part := range parts[2:] {
		addr, ok := addrIn(part, witness)
		if !ok {
			return false
		}
		if i == 0 {
			r.spans = append(r.spans, span{uint16(first), uint16(last), addr})
		}
		if !slices.Contains(r.addrs, addr) {
			r.addrs = append(r.addrs, addr)
		}
	}
	return true
}

// addrIn is the address of a server in CLUSTER SLOTS. A host that is not told is the one
// that was asked.
func addrIn(server any, witness string) (addr string, ok bool) {
	parts, _ := server.([]any)
	if len(parts) < 2 {
		return "", false
	}
	host, _ := parts[0].(string)
	port, ok := parts[1].(int64)
	return hostOr(host, witness, strconv.FormatInt(port, 10)), ok
}

func hostOr(host, known, port string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(known) // every address was checked
	}
	return net.JoinHostPort(host, port)
}

// pointer is what a reply of a Cluster says about where a key is served.
type pointer struct {
	kind pointerKind
	addr string
}

type pointerKind uint8

const (
	pointsNowhere pointerKind = iota // the reply says nothing of the kind
	pointsAway                       // MOVED: there, from now on
	pointsOnce                       // ASK: there, this time
	pointsLater                      // TRYAGAIN: the keys of the question are on their way
)

// pointerIn reads the reply behind a fault; asked is who gave it.
func pointerIn(fault error, asked string) pointer {
	var reply redis.Error
	if !errors.As(fault, &reply) {
		return pointer{}
	}
	words := strings.Fields(reply.Error())
	if len(words) == 0 {
		return pointer{}
	}
	kind := map[string]pointerKind{"MOVED": pointsAway, "ASK": pointsOnce, "TRYAGAIN": pointsLater}[words[0]]
	if kind == pointsNowhere || kind == pointsLater {
		return pointer{kind: kind}
	}
	if len(words) != 3 { // MOVED slot host:port
		return pointer{}
	}
	host, port, err := net.SplitHostPort(words[2])
	if err != nil {
		return pointer{}
	}
	return pointer{kind, hostOr(host, asked, port)}
}

// wholeIsDown tells whether a server says that it serves nothing for want of others, and
// not that one slot has no server.
func wholeIsDown(fault error) bool {
	var reply redis.Error
	return errors.As(fault, &reply) && strings.HasPrefix(reply.Error(), "CLUSTERDOWN The cluster is down")
}

// stale tells whether a fault may come from asking the wrong server.
func stale(err error) bool {
	var f *tierlock.Fault
	if !errors.As(err, &f) {
		return false
	}
	switch f.Reason {
	case tierlock.ReasonDown, tierlock.ReasonBroken, tierlock.ReasonAttempt:
		return true
	case tierlock.ReasonDenied:
		var reply redis.Error
		return errors.As(err, &reply) && (strings.HasPrefix(reply.Error(), "READONLY ") || strings.HasPrefix(reply.Error(), "MOVED "))
	}
	return false
}

// pause waits a little, the longer the higher turn is; a fault when less than spare would
// be left of ctx's time, or ctx is cancelled.
func pause(ctx context.Context, spare time.Duration, turn int) *tierlock.Fault {
	wait := jitter(min(firstPause<<min(turn, 8), maxPause))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait+spare {
		return fault(context.DeadlineExceeded)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fault(ctx.Err())
	case <-timer.C:
		return nil
	}
}
