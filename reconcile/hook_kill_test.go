package reconcile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/tierlock/tierlock"
)

// TestWebhookIsAskedAgainAfterAKill: the process that asks is killed after the service has
// done the work and before it could answer. The next life asks with the same key, and the
// service, which has kept the key with its work, does nothing.
func TestWebhookIsAskedAgainAfterAKill(t *testing.T) {
	secret := []byte(strings.Repeat("k", 32))
	var mu sync.Mutex
	var keys []string
	claims, applied := 2, map[string]bool{}
	worked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		q, err := ReadWebhook(secret, req)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		keys = append(keys, q.Key)
		first, result := len(keys) == 1, ResultAlready
		if !applied[q.Key] {
			claims, applied[q.Key], result = claims-1, true, ResultApplied
		}
		mu.Unlock()
		if first {
			close(worked)
			<-req.Context().Done() // its process is killed
			return
		}
		_ = json.NewEncoder(w).Encode(WebhookAnswer{Result: result})
	}))
	t.Cleanup(server.Close)
	child := func() (*exec.Cmd, *strings.Builder) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAskingChild$")
		cmd.Env = append(os.Environ(), "ASKING_CHILD="+server.URL)
		out := new(strings.Builder)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	first, _ := child()
	<-worked
	_ = first.Process.Kill()
	if err := first.Wait(); err == nil {
		t.Fatal("the first life was not killed")
	}
	second, out := child()
	if err := second.Wait(); err != nil || !strings.Contains(out.String(), "result already") {
		t.Fatalf("%v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	if claims != 1 || len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("%d claims after questions %v; want one repair and one key", claims, keys)
	}
}

// TestAskingChild is the process that is killed; by itself it is nothing.
func TestAskingChild(t *testing.T) {
	url, wanted := os.LookupEnv("ASKING_CHILD")
	if !wanted {
		return
	}
	transport := &http.Transport{DisableKeepAlives: true}
	hook, err := NewWebhook(WebhookConfig{URL: url, Secret: []byte(strings.Repeat("k", 32)), Client: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	c := caseFor("1")
	c.Loser.Key, c.Grant = key(t, "biz:coupon:lock:u1"), tierlock.Grant{Token: 7}
	result, err := hook.Repair.Repair(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stdout, "result", result)
}
