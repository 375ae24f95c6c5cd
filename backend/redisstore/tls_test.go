package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// The lock over TLS in both directions: the client believes one authority only, and the
// server wants the client's certificate. What is wrong with a certificate is said in the
// fault.
func TestStoreSpeaksTLS(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	addr := tlsRedis(t, own, own.issue(t, "server"))

	store := open(t, redisstore.Config{Addrs: []string{addr}, TLS: own.client(t)})
	hold := newHold(t, minute)
	take(t, store, hold, tierlock.Granted)
	give(t, store, hold, tierlock.Released)
	ctx, _ := within(t, 5*time.Second)
	if err := store.Probe(ctx, ""); err != nil {
		t.Errorf("probe: %v", err)
	}

	strangers := own.client(t)
	strangers.RootCAs = other.pool
	misnamed := own.client(t)
	misnamed.ServerName = "redis.example"
	for name, c := range map[string]struct {
		addr string
		tls  *tls.Config
		says string
	}{
		"a server of another authority": {addr, strangers, "signed by unknown authority"},
		"a server of another name":      {addr, misnamed, "wanted to match redis.example"},
		"a server's past its time":      {tlsRedis(t, own, own.expired(t, "server")), own.client(t), "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := try(t, open(t, redisstore.Config{Addrs: []string{c.addr}, TLS: c.tls}), newHold(t, minute))
			wantFault(t, err, tierlock.ReasonDown, false)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want it to say %q", err, c.says)
			}
		})
	}
}

// A server that does not believe us says so after the handshake (TLS 1.3 has it so), by
// an alert and then by closing.
func TestServerThatDoesNotBelieveOurCertificate(t *testing.T) {
	own := newAuthority(t)
	addr := tlsRedis(t, own, own.issue(t, "server"))
	anonymous, strange, old := own.client(t), own.client(t), own.client(t)
	anonymous.Certificates = nil
	strange.Certificates = []tls.Certificate{newAuthority(t).issue(t, "client")}
	old.Certificates = []tls.Certificate{own.expired(t, "client")}
	for says, conf := range map[string]*tls.Config{
		"certificate required": anonymous, "unknown certificate authority": strange, "expired certificate": old,
	} {
		t.Run(says, func(t *testing.T) {
			store := open(t, redisstore.Config{Addrs: []string{addr}, TLS: conf})
			eventually(t, "the alert comes before the end of the connection", func() bool {
				_, err := try(t, store, newHold(t, minute))
				var fault *tierlock.Fault
				if !errors.As(err, &fault) || fault.Reason == tierlock.ReasonDown && fault.InDoubt || fault.Reason == tierlock.ReasonBroken && !fault.InDoubt ||
					fault.Reason != tierlock.ReasonDenied && fault.Reason != tierlock.ReasonBroken && fault.Reason != tierlock.ReasonDown {
					t.Fatalf("%v, want it denied; or broken, or down where it was closed before anything was sent", err)
				}
				return fault.Reason == tierlock.ReasonDenied && strings.Contains(err.Error(), says)
			})
		})
	}
}

// tlsRedis is the address of a server that speaks TLS to those whom own has certified.
func tlsRedis(t *testing.T, own *authority, cert tls.Certificate) string {
	t.Helper()
	return servers.SecureRedis(t, own.files(t, cert)).TLSAddr()
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

// expired makes one whose time is over.
func (a *authority) expired(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, old := newKey(t), template(name)
	old.NotBefore, old.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	return tls.Certificate{Certificate: [][]byte{sign(t, old, a.cert, key, a.key).Raw}, PrivateKey: key}
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
