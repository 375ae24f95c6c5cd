package nacossource

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/tierlock/tierlock"
)

// Defaults of Config.
const (
	DefaultDataID = "tierlock.switch"
	DefaultGroup  = "TIERLOCK"
)

// Config of a Source.
type Config struct {
	Addr      string // host:port of the HTTP API, say 127.0.0.1:8848; gRPC is at port + 1000. Required
	Namespace string // its id; empty is public
	Group     string // DefaultGroup when empty
	DataID    string // DefaultDataID when empty
	Username  string // empty: no login
	Password  string
	CacheDir  string // where the SDK keeps its snapshots, which are never read; a temporary folder when empty
	LogDir    string // where the SDK logs errors of its own construction; CacheDir's folder when empty
	TLS       TLS
	// Logger gets what the SDK says, at debug level, without contents or password. nil
	// discards. The SDK has one logger for the process: that of the latest client.
	Logger *slog.Logger
}

// TLS to the server. The files are read, and must fit, when the Source is made.
type TLS struct {
	Enable   bool
	TrustAll bool   // accept any certificate of the server
	CA       string // PEM file beside the system's roots; may be empty
	Cert     string // PEM files of the client's certificate and key; both or none
	Key      string
}

func (c Config) withDefaults() Config {
	if c.Group == "" {
		c.Group = DefaultGroup
	}
	if c.DataID == "" {
		c.DataID = DefaultDataID
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports every fault at once, each a [*tierlock.InvalidError]. It reads no file.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	bad := func(field, value, rule string) { faults = append(faults, tierlock.Invalid(field, value, rule)) }
	if _, _, err := c.hostPort(); err != nil {
		bad("addr", c.Addr, err.Error())
	}
	for _, id := range []struct{ field, name string }{{"group", c.Group}, {"data_id", c.DataID}} {
		if !isName(id.name) {
			bad(id.field, id.name, "want letters, digits and _ : . -")
		}
	}
	if c.Namespace != "" && !isName(c.Namespace) {
		bad("namespace", c.Namespace, "want the namespace's id: letters, digits and _ : . -")
	}
	if c.Username == "" && c.Password != "" {
		bad("username", "", "is missing: there is a password")
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		bad("tls.cert", c.TLS.Cert, "want tls.cert and tls.key, or neither")
	}
	if !c.TLS.Enable && (c.TLS.Cert != "" || c.TLS.CA != "" || c.TLS.TrustAll) {
		bad("tls.enable", "false", "want true: there are other tls settings")
	}
	return errors.Join(faults...)
}

// hostPort takes Addr apart.
func (c Config) hostPort() (host string, port uint64, err error) {
	host, text, err := net.SplitHostPort(c.Addr)
	if err != nil || host == "" {
		return "", 0, errors.New("want host:port")
	}
	port, err = strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || port+grpcOffset > 65535 {
		return "", 0, fmt.Errorf("want a port from 1 to %d: gRPC is at port + %d", 65535-grpcOffset, grpcOffset)
	}
	return host, port, nil
}

// grpcOffset is Nacos's: the SDK speaks gRPC only, whatever port is configured.
const grpcOffset = 1000

func isName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:.-") == ""
}
