package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// letters opens the way back from the dead letters.
func (c *Config) letters(log *slog.Logger) (*kafkasource.Replay, error) {
	k := c.Audit.Kafka
	if k == nil {
		return nil, tierlock.Invalid("audit.kafka", "", "is required: the dead letters are there")
	}
	conf, err := k.conf(c.Reconcile.topic(), log)
	if err != nil {
		return nil, prefixed("audit.kafka.", err)
	}
	if err := conf.Validate(); err != nil {
		return nil, prefixed("audit.", err)
	}
	return kafkasource.NewReplay(kafkasource.Config{
		Brokers: k.Brokers, Topic: k.Topic, Group: c.Reconcile.group(true), Dead: or(k.DLQ, or(k.Topic, kafkasink.EventsTopic)+".dlq"),
		TLS: conf.TLS, SASL: conf.SASL, ClientID: "tierlock-replay", Logger: log,
	})
}

// replayLetters looks at every dead letter, and with apply puts back those that this binary
// can read. What is still bad is listed, and the command ends with ExitError.
func (p Process) replayLetters(ctx context.Context, cfg Config, apply bool, format string) int {
	replay, err := cfg.letters(cfg.Log.logger(p.Stderr))
	if err != nil {
		return p.fail(format, err)
	}
	defer replay.Close() //nolint:errcheck // every message has been acknowledged
	readable := func(value []byte) error { _, err := audit.Parse(value); return err }
	bad := []kafkasource.Letter{}
	sum, err := replay.Run(ctx, apply, readable, func(l kafkasource.Letter) {
		switch {
		case l.Fault == "":
		case format == "json":
			bad = append(bad, l)
		default:
			fmt.Fprintf(p.Stdout, "%d/%d  %s\n", l.Partition, l.Offset, l.Fault)
		}
	})
	if err != nil {
		return p.fail(format, err)
	}
	if format == "json" {
		_ = encoder(p.Stdout).Encode(struct {
			kafkasource.Replayed
			Stay []kafkasource.Letter `json:"stay"`
		}{sum, bad})
	} else {
		fmt.Fprintf(p.Stdout, "%d dead %s: %d can be read now, %d put back, %d stay\n", sum.Letters, plural(sum.Letters, "letter"), sum.Good, sum.Replayed, sum.Bad)
		if !apply && sum.Good > 0 {
			fmt.Fprintln(p.Stdout, "nothing was put back: --apply does")
		}
	}
	if sum.Bad > 0 {
		return ExitError
	}
	return ExitOK
}
