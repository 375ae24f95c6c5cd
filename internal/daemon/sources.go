package daemon

import (
	"log/slog"

	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/switchcfg"
)

// openSwitch opens where orders come from; nil where nothing is configured.
func (b *base) openSwitch() (switchcfg.Source, error) {
	switch c := b.cfg.Switch; {
	case c.File != "":
		return switchcfg.File(c.File), nil
	case c.Nacos != nil:
		source, err := c.Nacos.open(b.log)
		if err != nil {
			return nil, prefixed("switch.nacos.", err)
		}
		b.opened("nacos", source.Close)
		return source, nil
	}
	return nil, nil
}

// conf is the sink's configuration; findings is the name of the findings' topic.
func (k *KafkaConfig) conf(findings string, log *slog.Logger) (kafkasink.Config, error) {
	tls, err := k.TLS.load()
	return kafkasink.Config{
		Brokers: k.Brokers, Topic: k.Topic, DLQ: k.DLQ, Findings: findings,
		Partitions: k.Partitions, Replicas: k.Replicas, TLS: tls, Logger: log,
	}, err
}
