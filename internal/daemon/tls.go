package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

	"github.com/tierlock/tierlock"
)

// TLSConfig says how to speak TLS to a server. Empty (tls: {}) is TLS with the system's
// roots and no client certificate.
type TLSConfig struct {
	CA         string `yaml:"ca_file"`     // PEM; the system's roots
	Cert       string `yaml:"cert_file"`   // PEM; none. With key_file
	Key        string `yaml:"key_file"`    // PEM
	ServerName string `yaml:"server_name"` // the host that is dialled
}

// load reads the files; nil is no TLS.
func (c *TLSConfig) load() (*tls.Config, error) {
	if c == nil {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	var errs []error
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		conf.RootCAs = x509.NewCertPool()
		if err != nil || !conf.RootCAs.AppendCertsFromPEM(pem) {
			errs = append(errs, tierlock.Invalid("tls.ca_file", c.CA, "holds no certificate that can be read"))
		}
	}
	switch {
	case (c.Cert == "") != (c.Key == ""):
		errs = append(errs, tierlock.Invalid("tls.cert_file", c.Cert, "want cert_file and key_file, or neither"))
	case c.Cert != "":
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			errs = append(errs, tierlock.Invalid("tls.cert_file", c.Cert, "cannot be read with its key: "+err.Error()))
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, errors.Join(errs...)
}
