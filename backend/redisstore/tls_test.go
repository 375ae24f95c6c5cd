package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// The lock over TLS in both directions: the client believes one authority only, and the
// server wants the client's certificate.
func TestStoreSpeaksTLS(t *testing.T) {
	own := newAuthority(t)
	addr := tlsRedis(t, own)

	store := open(t, redisstore.Config{Addrs: []string{addr}, TLS: own.client(t)})
	hold := newHold(t, minute)
	take(t, store, hold, tierlock.Granted)
	give(t, store, hold, tierlock.Released)

	strangers := own.client(t)
	strangers.RootCAs = newAuthority(t).pool
	anonymous := own.client(t)
	anonymous.Certificates = nil
	for name, c := range map[string]struct {
		tls    *tls.Config
		reason tierlock.Reason
		doubt  bool
	}{
		"a server of another authority": {strangers, tierlock.ReasonDown, false},
		"no certificate of our own":     {anonymous, tierlock.ReasonBroken, true}, // TLS 1.3 tells it after the handshake
	} {
		t.Run(name, func(t *testing.T) {
			_, err := try(t, open(t, redisstore.Config{Addrs: []string{addr}, TLS: c.tls}), newHold(t, minute))
			wantFault(t, err, c.reason, c.doubt)
		})
	}
}

// tlsRedis is the address of a server that speaks TLS to those whom own has certified.
func tlsRedis(t *testing.T, own *authority) string {
	t.Helper()
	servers.Need(t, "redis-server")
	addr := closedPort(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert := own.issue(t, "server")
	ca, public, private := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, ca, "CERTIFICATE", own.cert.Raw)
	writePEM(t, public, "CERTIFICATE", cert.Certificate[0])
	writePEM(t, private, "PRIVATE KEY", key)
	servers.Redis(t, "--tls-port", port, "--tls-ca-cert-file", ca, "--tls-cert-file", public, "--tls-key-file", private, "--tls-auth-clients", "yes")
	return addr
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// authority issues certificates for this machine.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t), pool: x509.NewCertPool()}
	template := template("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.cert = sign(t, template, template, a.key, a.key)
	a.pool.AddCert(a.cert)
	return a
}

// issue makes a certificate that serves both ends of a connection.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	cert := sign(t, template(name), a.cert, key, a.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// client is what a client of a's servers needs.
func (a *authority) client(t *testing.T) *tls.Config {
	t.Helper()
	return &tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{a.issue(t, "client")}, MinVersion: tls.VersionTLS13}
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}
