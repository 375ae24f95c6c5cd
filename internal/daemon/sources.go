package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net/http"
	"os"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
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
	case c.HTTP != nil:
		source, err := c.HTTP.open()
		if err != nil {
			return nil, prefixed("switch.http.", err)
		}
		b.opened("switch over http", func(context.Context) error { source.Close(); return nil })
		return source, nil
	}
	return nil, nil
}

// keys reads the keys that sign documents; none where none are configured.
func (c *SwitchConfig) keys() ([]ed25519.PublicKey, error) {
	if c.Verify == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Verify)
	if err != nil {
		return nil, tierlock.Invalid("verify_file", c.Verify, "cannot be read: "+withoutPath(err))
	}
	keys, err := switchcfg.PublicKeys(text)
	if err != nil {
		return nil, tierlock.Invalid("verify_file", c.Verify, err.Error())
	}
	return keys, nil
}

// conf is the source's configuration. The password is read once to check it, and again for
// every question, so that a rotated one needs no restart.
func (h *HTTPConfig) conf() (switchcfg.HTTPConfig, error) {
	conf, err := h.TLS.load()
	_, unread := h.Password.value()
	if h.Username != "" && h.Password == (Secret{}) {
		unread = tierlock.Invalid("password_env", "", "is missing for the username: or give password_file")
	}
	c := switchcfg.HTTPConfig{URL: h.URL, TLS: conf}
	if h.Password != (Secret{}) {
		c.Authorize = h.authorize
	}
	return c, errors.Join(err, unread)
}

// authorize puts the password on a request: with a user's name, else as a bearer token.
func (h *HTTPConfig) authorize(r *http.Request) error {
	password, err := h.Password.value()
	switch {
	case err != nil:
		return err
	case h.Username != "":
		r.SetBasicAuth(h.Username, password)
	default:
		r.Header.Set("Authorization", "Bearer "+password)
	}
	return nil
}

// open makes the source ready to be fetched from; it does no I/O but for the files that it
// names.
func (h *HTTPConfig) open() (*switchcfg.HTTP, error) {
	conf, err := h.conf()
	if err != nil {
		return nil, err
	}
	return switchcfg.NewHTTP(conf)
}

// load reads the secret; nil hides nothing.
func (d *DigestConfig) load() (audit.Digest, error) {
	if d == nil {
		return audit.Digest{}, nil
	}
	secret, err := readSecret("digest.secret", d.SecretEnv, d.SecretFile)
	if err != nil {
		return audit.Digest{}, err
	}
	conf := audit.Digest{Chains: d.Chains, Secret: []byte(secret)}
	if len(d.Chains) == 0 {
		return conf, tierlock.Invalid("digest.chains", "", "is required")
	}
	return conf, conf.Validate()
}

// conf is the sink's configuration; findings is the name of the findings' topic.
func (k *KafkaConfig) conf(findings string, log *slog.Logger) (kafkasink.Config, error) {
	tls, err := k.TLS.load()
	conf := kafkasink.Config{
		Brokers: k.Brokers, Topic: k.Topic, DLQ: k.DLQ, Findings: findings,
		Partitions: k.Partitions, Replicas: k.Replicas, TLS: tls, Logger: log,
	}
	if k.SASL != nil {
		login := kafkasink.Login{Mechanism: k.SASL.Mechanism, Username: k.SASL.Username, Password: k.SASL.Password.value}
		conf.SASL = login
		err = errors.Join(err, prefixed("sasl.", k.SASL.check(login, k.TLS)))
	}
	return conf, err
}

func (s *KafkaSASL) check(login kafkasink.Login, tls *TLSConfig) error {
	err := login.Validate()
	if _, unread := s.Password.value(); unread != nil {
		err = errors.Join(err, unread)
	}
	if s.Password == (Secret{}) {
		err = errors.Join(err, tierlock.Invalid("password_env", "", "is required: or give password_file"))
	}
	if login.Name() == "PLAIN" && tls == nil {
		err = errors.Join(err, tierlock.Invalid("mechanism", "PLAIN", "shows the password to whoever listens: want tls beside it, or SCRAM"))
	}
	return err
}
