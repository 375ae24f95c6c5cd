package nacossource

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock/switchcfg/nacostest"
)

// alone is set in a process that a test has started to look at from outside.
const alone = "NACOSSOURCE_TEST_ALONE"

// inAProcess runs the calling test once more in a process of its own, which may write to
// its standard error, its folder or its home, or end in the middle, and returns where the
// files of a configuration belong; nil in that process.
func inAProcess(t *testing.T) (files []string) {
	t.Helper()
	if os.Getenv(alone) != "" {
		return nil
	}
	here, home, cache := t.TempDir(), t.TempDir(), t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	beside := under(t, filepath.Dir(self))
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Dir, cmd.Env = here, append(os.Environ(), alone+"="+cache, "HOME="+home, "TMPDIR="+cache)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "PASS\n" {
		t.Errorf("the process ended with %v, and wrote %s", err, out)
	}
	for _, dir := range []string{here, home} {
		if left := under(t, dir); len(left) > 0 {
			t.Errorf("files where nobody put them: %q", left)
		}
	}
	for _, f := range under(t, filepath.Dir(self)) {
		if !slices.Contains(beside, f) {
			t.Errorf("a file beside the program: %s", f)
		}
	}
	return under(t, cache)
}

// under lists the files below dir.
func under(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func fetchOnce(t *testing.T, cfg Config) error {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err = s.Fetch(ctx)
	return errors.Join(err, s.Close(ctx))
}

// TestTheSDKWritesWhereItIsToldAndNowhereElse: not beside the program, not at home, not on
// standard error; and what it keeps goes with the source.
func TestTheSDKWritesWhereItIsToldAndNowhereElse(t *testing.T) {
	t.Parallel()
	if files := inAProcess(t); os.Getenv(alone) == "" {
		for _, f := range files {
			if filepath.Dir(f) != "log" {
				t.Errorf("left behind: %s", f)
			}
		}
		return
	}
	n := nacostest.Start(t)
	put(n, 1)
	dir := os.Getenv(alone)
	if err := fetchOnce(t, Config{Addr: n.Addr(), CacheDir: filepath.Join(dir, "cache"), LogDir: filepath.Join(dir, "log")}); err != nil {
		t.Error(err)
	}
}

// TestACertificateThatGoesBadLaterEndsNoProcess: the SDK reads it anew for each connection
// and ends the process when it cannot.
func TestACertificateThatGoesBadLaterEndsNoProcess(t *testing.T) {
	t.Parallel()
	if inAProcess(t); os.Getenv(alone) == "" {
		return
	}
	n := nacostest.Start(t) // speaks no TLS: what matters is that a connection is tried
	dir := t.TempDir()
	cert, key := pair(t, dir)
	s, err := New(Config{Addr: n.Addr(), CacheDir: t.TempDir(), TLS: TLS{Enable: true, TrustAll: true, Cert: cert, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{cert, key} {
		if err := os.WriteFile(path, []byte("half of a certif"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := s.Fetch(ctx); err == nil {
		t.Error("a server without TLS answers over TLS")
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// pair writes a certificate and its key.
func pair(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
