package kafkasink

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/tierlock/tierlock"
)

// Login is how a broker is told who we are; it fits [Config.SASL]. The password is asked
// for anew by every connection, so that a rotated one needs no restart.
type Login struct {
	Mechanism string                 // SCRAM-SHA-512 (default), SCRAM-SHA-256 or PLAIN, which shows the password to whoever listens: only with TLS
	Username  string                 // required
	Password  func() (string, error) // required
}

var _ sasl.Mechanism = Login{}

// Validate reports every fault at once.
func (l Login) Validate() error {
	var faults []error
	switch l.Name() {
	case scram.SHA512.Name(), scram.SHA256.Name(), plainName:
	default:
		faults = append(faults, tierlock.Invalid("mechanism", l.Mechanism, "want SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN"))
	}
	if l.Username == "" {
		faults = append(faults, tierlock.Invalid("username", "", "is required"))
	}
	if l.Password == nil {
		faults = append(faults, tierlock.Invalid("password", "", "is required"))
	}
	return errors.Join(faults...)
}

const plainName = "PLAIN"

// Name implements [sasl.Mechanism].
func (l Login) Name() string {
	if l.Mechanism == "" {
		return scram.SHA512.Name()
	}
	return l.Mechanism
}

// Start implements [sasl.Mechanism].
func (l Login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	if err := l.Validate(); err != nil {
		return nil, nil, err
	}
	password, err := l.Password()
	if err != nil {
		return nil, nil, fmt.Errorf("kafkasink: password: %w", err)
	}
	if l.Name() == plainName {
		return plain.Mechanism{Username: l.Username, Password: password}.Start(ctx)
	}
	algorithm := scram.SHA512
	if l.Name() == scram.SHA256.Name() {
		algorithm = scram.SHA256
	}
	m, err := scram.Mechanism(algorithm, l.Username, password)
	if err != nil {
		return nil, nil, fmt.Errorf("kafkasink: login: %w", err)
	}
	return m.Start(ctx)
}
