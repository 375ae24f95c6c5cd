package nacossource

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"

	"github.com/tierlock/tierlock"
)

// certificates are the files' contents as they were when the Source was made. The SDK
// reads files again at every connection and ends the process (log.Fatal) when one has gone
// bad meanwhile, so it gets copies in our own folder.
type certificates struct{ ca, cert, key []byte }

// readTLS reads what cfg names and checks that the SDK will be able to use it.
func readTLS(cfg TLS) (c certificates, err error) {
	if !cfg.Enable {
		return certificates{}, nil
	}
	if _, err := x509.SystemCertPool(); err != nil { // the SDK would end the process over it
		return certificates{}, tierlock.Invalid("tls.enable", "true", "the system's root certificates cannot be read: "+err.Error())
	}
	if cfg.CA != "" {
		if c.ca, err = os.ReadFile(cfg.CA); err != nil {
			return certificates{}, tierlock.Invalid("tls.ca", cfg.CA, "cannot be read: "+err.Error())
		}
		if !x509.NewCertPool().AppendCertsFromPEM(c.ca) {
			return certificates{}, tierlock.Invalid("tls.ca", cfg.CA, "holds no certificate in PEM")
		}
	}
	if cfg.Cert == "" {
		return c, nil
	}
	if c.cert, err = os.ReadFile(cfg.Cert); err != nil {
		return certificates{}, tierlock.Invalid("tls.cert", cfg.Cert, "cannot be read: "+err.Error())
	}
	if c.key, err = os.ReadFile(cfg.Key); err != nil {
		return certificates{}, tierlock.Invalid("tls.key", cfg.Key, "cannot be read: "+err.Error())
	}
	if _, err = tls.X509KeyPair(c.cert, c.key); err != nil {
		return certificates{}, tierlock.Invalid("tls.cert", cfg.Cert, "does not fit tls.key: "+err.Error())
	}
	return c, nil
}

// write puts the copies into dir, which only this process's user can enter.
func (c certificates) write(dir string) error {
	for name, content := range map[string][]byte{"ca.pem": c.ca, "cert.pem": c.cert, "key.pem": c.key} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// config points the SDK at the copies. Appointed keeps it from reading settings from the
// environment.
func (c certificates) config(cfg TLS, dir string) constant.TLSConfig {
	out := constant.TLSConfig{Appointed: true, Enable: cfg.Enable, TrustAll: cfg.TrustAll}
	if c.ca != nil {
		out.CaFile = filepath.Join(dir, "ca.pem")
	}
	if c.cert != nil {
		out.CertFile, out.KeyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	}
	return out
}
