package hostport

import (
	"net/url"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:6379": true, "redis:1": true, "redis.example.:65535": true, "[::1]:6379": true, "[fe80::1%eth0]:6379": true,
		"": false, "redis": false, ":6379": false, "redis:": false, "redis:0": false, "redis:65536": false, "127.0.0.1:99999": false,
		"127.0.0.1:26391x": false, "redis:-1": false, "redis:+1": false, "redis:http": false, "::1:6379": false, "[::1]": false,
		"a:1,b:2": false, "a,b:2": false, "redis://a:1": false, "me@redis:6379": false, "redis :6379": false, "/run/redis:6379": false,
	} {
		if got := Valid(addr); got != want {
			t.Errorf("%q: %t, want %t", addr, got, want)
		}
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]bool{
		"http://config/x": true, "https://[::1]:8443/": true, "http://config:80": true,
		"http://:80/x": false, "http:///x": false, "http://config:0/": false, "http://config:99999/": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := ValidURL(u); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}
