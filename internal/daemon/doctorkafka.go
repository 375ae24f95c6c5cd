package daemon

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock/audit/kafkasink"
)

// leastRetention is how long events must stay in the topic: a spool may be hours late, and
// a report is read days after.
const leastRetention = 3 * 24 * time.Hour

func (c *Config) doctorKafka(ctx context.Context, e *examiner) {
	k := c.Audit.Kafka
	conf, err := k.conf(c.Reconcile.topic(), slog.New(slog.DiscardHandler))
	if err != nil {
		e.fail("open", "see docs/config.md", "%v", err)
		return
	}
	sink, err := kafkasink.New(conf)
	if err != nil {
		e.fail("open", "see docs/config.md", "%v", err)
		return
	}
	defer func() { _ = sink.Close() }()
	x, err := sink.Examine(ctx)
	if err != nil {
		e.fail("reach", "look whether the brokers run there, under the names they advertise, and whether this host may reach them; TLS and SASL",
			"%s: %v", strings.Join(k.Brokers, ", "), err)
		return
	}
	e.ok("reach", "%d %s", x.Brokers, plural(x.Brokers, "broker"))
	events := or(k.Topic, kafkasink.EventsTopic)
	for i := range x.Topics {
		t := &x.Topics[i]
		before := len(e.found)
		switch {
		case t.Err != nil:
			e.fail("topic", "grant Describe and DescribeConfigs on the topic", "%s: %v", t.Name, t.Err)
			continue
		case t.Missing:
			e.ok("topic", "%s is not there yet; the daemon makes it, where it may", t.Name)
			continue
		}
		judgeReplicas(e, t, x.Brokers)
		switch t.Name {
		case events:
			judgeEvents(e, t, k.Partitions)
		case c.Reconcile.topic():
			judgeFindings(e, t)
		default:
			judgeDead(e, t)
		}
		if len(e.found) == before {
			e.ok("topic", "%s: %d %s, %d %s", t.Name, t.Partitions, plural(t.Partitions, "partition"), t.Replicas, plural(t.Replicas, "replica"))
		}
	}
}

// judgeReplicas looks at what acks=all is worth: as many copies as the topic insists on.
func judgeReplicas(e *examiner, t *kafkasink.TopicState, brokers int) {
	least, _ := strconv.Atoi(t.Settings["min.insync.replicas"])
	switch {
	case t.Leaderless > 0:
		e.fail("topic", "bring its brokers back", "%s: %d of %d partitions have no leader and take nothing", t.Name, t.Leaderless, t.Partitions)
	case t.InSync < least:
		e.fail("topic", "bring its brokers back", "%s: %d in sync where min.insync.replicas is %d, so it takes nothing", t.Name, t.InSync, least)
	case t.Replicas < 2 && brokers > 1:
		e.fail("topic", "give it 3 replicas and min.insync.replicas=2", "%s: one copy, lost with its broker, though there are %d brokers", t.Name, brokers)
	case t.Replicas < 2:
		e.warn("topic", "run 3 brokers, and give it 3 replicas and min.insync.replicas=2", "%s: one copy, lost with its broker", t.Name)
	case least < 2:
		e.warn("topic", "set min.insync.replicas=2", "%s: min.insync.replicas is %d, so that one copy is enough for an answer, and can be lost", t.Name, least)
	case least == t.Replicas:
		e.warn("topic", "give it one replica more", "%s: min.insync.replicas is %d of %d replicas, so that it stops with any broker", t.Name, least, t.Replicas)
	}
	if t.Settings["unclean.leader.election.enable"] == "true" {
		e.warn("topic", "set unclean.leader.election.enable=false", "%s: a copy that lacks events may become the leader", t.Name)
	}
}

func judgeEvents(e *examiner, t *kafkasink.TopicState, want int) {
	if t.Compacted() {
		e.fail("topic", "set cleanup.policy=delete", "%s is compacted: of each key all but the last event is thrown away", t.Name)
	}
	if kept, limited := t.Retention(); limited && kept < leastRetention {
		e.warn("topic", "set retention.ms to 604800000 (a week)", "%s keeps events for %v: a spool that comes late, or a report, finds them gone", t.Name, kept)
	}
	if want > 0 && t.Partitions != want {
		e.warn("topic", "set audit.kafka.partitions to what it has; keys of one topic must not move", "%s has %d partitions, audit.kafka.partitions says %d", t.Name, t.Partitions, want)
	}
}

func judgeFindings(e *examiner, t *kafkasink.TopicState) {
	if !t.Compacted() {
		e.warn("topic", "set cleanup.policy=compact", "%s is not compacted (%s): findings that stand go with their age", t.Name, t.Settings["cleanup.policy"])
	}
}

// judgeDead: what was too large for the events must fit there.
func judgeDead(e *examiner, t *kafkasink.TopicState) {
	if t.Compacted() {
		e.fail("topic", "set cleanup.policy=delete", "%s is compacted: dead letters of one key replace each other", t.Name)
	}
	if most, err := strconv.Atoi(t.Settings["max.message.bytes"]); err == nil && most < 2<<20 {
		e.warn("topic", "set max.message.bytes=4194304", "%s takes messages of %d bytes: what was too large for the events is too large for it as well", t.Name, most)
	}
}
