package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// say sends one command without blanks in its words to a Redis, a sentinel too, and
// returns its reply as text. It knows what setting up needs: no arrays.
func say(addr string, words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, strings.Join(words, " ")+"\r\n"); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '+', ':':
		return rest, nil
	case '$':
		size, err := strconv.Atoi(rest)
		if err != nil || size < 0 {
			return "", fmt.Errorf("%s: reply %q", words[0], line)
		}
		text := make([]byte, size)
		_, err = io.ReadFull(in, text)
		return string(text), err
	}
	return "", errors.New(strings.Join(words, " ") + ": " + rest)
}

// order is say for what must work.
func order(tb testing.TB, addr string, words ...string) string {
	tb.Helper()
	reply, err := say(addr, words...)
	if err != nil {
		tb.Fatalf("%s: %v", addr, err)
	}
	return reply
}

// settle waits until addr's reply to words contains each of the wanted.
func settle(tb testing.TB, addr string, words []string, wanted ...string) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(readyIn); ; <-tick.C {
		reply, err := say(addr, words...)
		if err == nil && containsAll(reply, wanted) {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("%s: %s: never %q: %v, %s", addr, strings.Join(words, " "), wanted, err, reply)
		}
	}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
