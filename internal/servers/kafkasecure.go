package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// SecureKafkaServer is a broker that also listens where a user must log in over TLS. Its
// Addr stays open to all, for tests that look at what came of it.
type SecureKafkaServer struct {
	*KafkaServer
	SecureAddr string // SASL over TLS: SCRAM-SHA-512 and SCRAM-SHA-256
	CA         string // PEM file of who signed its certificate
}

// secureProperties takes the port, the file with key and certificate, and how long a login
// is good for, in ms.
const secureProperties = `listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d,SECURE://127.0.0.1:%[3]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d,SECURE://127.0.0.1:%[3]d
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location=%[4]s
connections.max.reauth.ms=%[5]d
`

// SecureKafka is [Kafka] with a user who may log in, for session at a time: a client that
// does not log in again by then loses its connection.
func SecureKafka(tb testing.TB, user, password string, session time.Duration) *SecureKafkaServer {
	tb.Helper()
	Need(tb, "Kafka")
	s := &SecureKafkaServer{}
	scram := "SCRAM-SHA-%d=[name=" + user + ",password=" + password + "]"
	s.KafkaServer = startKafka(tb, func(dir string, port int) (properties string, format []string, err error) {
		keys := filepath.Join(dir, "keys.pem")
		s.CA, s.SecureAddr = filepath.Join(dir, "ca.pem"), loopback(port+2)
		return fmt.Sprintf(secureProperties, port, port+1, port+2, keys, session.Milliseconds()),
			[]string{"--add-scram", fmt.Sprintf(scram, 256), "--add-scram", fmt.Sprintf(scram, 512)},
			writeCertificate(keys, s.CA)
	})
	return s
}

// writeCertificate makes a certificate for this host, and who signed it: itself.
func writeCertificate(keys, ca string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), public...)
	if err := os.WriteFile(keys, both, 0o600); err != nil {
		return err
	}
	return os.WriteFile(ca, public, 0o644)
}
