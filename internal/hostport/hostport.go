// Package hostport holds the rule that every server's address in a configuration is held
// against: what net.Dial would find out one by one, and too late.
package hostport

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Rule is what an address that is not Valid breaks.
const Rule = "want host:port, the port a whole number from 1 to 65535"

// Valid tells whether addr names a host and a port by its number. A host of IPv6 stands in
// brackets. Names are not looked up.
func Valid(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && !strings.ContainsAny(host, " \t\r\n/@,") && isPort(port)
}

// ValidURL tells whether u names a host, and no port or one that there is.
func ValidURL(u *url.URL) bool {
	return u.Hostname() != "" && (u.Port() == "" || isPort(u.Port()))
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
