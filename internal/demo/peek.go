//go:build !nodemo

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// peek looks into Redis directly: past the proxy, past every client library. It is not
// safe for concurrent use.
type peek struct {
	conn net.Conn
	in   *bufio.Reader
}

func openPeek(ctx context.Context, addr string) (*peek, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("look into redis: %w", err)
	}
	return &peek{conn, bufio.NewReader(conn)}, nil
}

func (p *peek) close() { _ = p.conn.Close() }

// values asks for all keys at once; a key that is not there has the value "".
func (p *peek) values(keys []string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n$4\r\nMGET\r\n", len(keys)+1)
	for _, k := range keys {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(k), k)
	}
	if err := p.conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(p.conn, b.String()); err != nil {
		return nil, fmt.Errorf("look into redis: %w", err)
	}
	n, err := p.length('*')
	if err == nil && n != len(keys) {
		err = fmt.Errorf("asked for %d values, got %d", len(keys), n)
	}
	out := make([]string, 0, len(keys))
	for err == nil && len(out) < len(keys) {
		var v string
		v, err = p.bulk()
		out = append(out, v)
	}
	if err != nil {
		return nil, fmt.Errorf("look into redis: %w", err)
	}
	return out, nil
}

// length reads a line such as "$5": a type and a number.
func (p *peek) length(kind byte) (int, error) {
	line, err := p.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" || line[0] != kind {
		return 0, fmt.Errorf("unexpected answer %q", line)
	}
	return strconv.Atoi(line[1:])
}

func (p *peek) bulk() (string, error) {
	n, err := p.length('$')
	if err != nil || n < 0 {
		return "", err
	}
	const most = 1 << 20
	if n > most {
		return "", errors.New("a value that is no lock")
	}
	b := make([]byte, n+2)
	_, err = io.ReadFull(p.in, b)
	return string(b[:n]), err
}
