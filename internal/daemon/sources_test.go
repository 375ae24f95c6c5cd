package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
)

func TestASwitchOverHTTPSendsThePasswordOfTheMoment(t *testing.T) {
	var want string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "version: 1\nchains: {}\n")
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(secret string) {
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	for name, c := range map[string]struct {
		user          string
		first, second string
	}{
		"a token":           {"", "Bearer first", "Bearer second"},
		"a user's password": {"oncall", "Basic b25jYWxsOmZpcnN0", "Basic b25jYWxsOnNlY29uZA=="},
	} {
		t.Run(name, func(t *testing.T) {
			write("first")
			source, err := (&HTTPConfig{URL: server.URL, Username: c.user, Password: Secret{File: file}}).open()
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			want = c.first
			if _, err := source.Fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
			write("second")
			if _, err := source.Fetch(t.Context()); err == nil {
				t.Fatal("the old password was sent after the file had changed")
			}
			want = c.second
			if _, err := source.Fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestKafkaLoginIsCheckedBeforeAnythingIsDialled(t *testing.T) {
	t.Setenv("KAFKA_PASSWORD", "s3cret")
	for name, c := range map[string]struct{ kafka, fault string }{
		"good":              {`sasl: {username: u, password_env: KAFKA_PASSWORD}`, ""},
		"another mechanism": {`sasl: {mechanism: GSSAPI, username: u, password_env: KAFKA_PASSWORD}`, "audit.kafka.sasl.mechanism"},
		"nobody":            {`sasl: {password_env: KAFKA_PASSWORD}`, "audit.kafka.sasl.username"},
		"no password":       {`sasl: {username: u}`, "audit.kafka.sasl.password_env"},
		"not set":           {`sasl: {username: u, password_env: NOSUCH_VARIABLE}`, "audit.kafka.sasl.password_env"},
		"shown to all":      {`sasl: {mechanism: PLAIN, username: u, password_env: KAFKA_PASSWORD}`, "audit.kafka.sasl.mechanism"},
		"shown to one":      {`tls: {}, sasl: {mechanism: PLAIN, username: u, password_env: KAFKA_PASSWORD}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(example, `brokers: ["127.0.0.1:9092"]`, `brokers: ["127.0.0.1:9092"], `+c.kafka, 1)
			conf, err := Parse([]byte(text))
			switch {
			case c.fault == "" && err != nil:
				t.Error(err)
			case c.fault == "":
				if sink, err := conf.Audit.Kafka.conf("", nil); err != nil || sink.SASL == nil {
					t.Errorf("%+v, %v", sink, err)
				}
			case len(tierlock.Invalids(err)) != 1 || tierlock.Invalids(err)[0].Field != c.fault:
				t.Errorf("%v, want a fault of %s", err, c.fault)
			}
		})
	}
}

func TestDigestIsCheckedAndItsChainsAreOurs(t *testing.T) {
	t.Setenv("SECRET", "sixteen bytes or more")
	t.Setenv("SHORT", "short")
	for name, c := range map[string]struct{ digest, fault string }{
		"good":        {`{chains: [coupon], secret_env: SECRET}`, ""},
		"no chain":    {`{secret_env: SECRET}`, "audit.digest.chains"},
		"not ours":    {`{chains: [flights], secret_env: SECRET}`, "audit.digest.chains"},
		"too short":   {`{chains: [coupon], secret_env: SHORT}`, "audit.digest.secret"},
		"no secret":   {`{chains: [coupon]}`, "audit.digest.secret"},
		"not set":     {`{chains: [coupon], secret_env: NOSUCH_VARIABLE}`, "audit.digest.secret_env"},
		"no file":     {`{chains: [coupon], secret_file: /nosuch/file}`, "audit.digest.secret_file"},
		"two sources": {`{chains: [coupon], secret_env: SECRET, secret_file: /nosuch/file}`, "audit.digest.secret_file"},
	} {
		t.Run(name, func(t *testing.T) {
			conf, err := Parse([]byte(strings.Replace(example, "audit: {", "audit: {digest: "+c.digest+", ", 1)))
			switch {
			case c.fault != "" && (len(tierlock.Invalids(err)) != 1 || tierlock.Invalids(err)[0].Field != c.fault):
				t.Errorf("%v, want a fault of %s", err, c.fault)
			case c.fault == "" && err != nil:
				t.Error(err)
			case c.fault == "":
				if d, err := conf.Audit.Digest.load(); err != nil || len(d.Secret) != 21 {
					t.Errorf("%+v, %v", d, err)
				}
			}
		})
	}
}
