package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// Locks that nobody can have, or that never end, are told by name, each with what to do,
// as text and as JSON; doctor touches none.
func TestDoctorListsKeysThatAreOutOfOrder(t *testing.T) {
	const main = "store main"
	server := servers.Redis(t, "--appendonly", "yes")
	text := storeFile(t, "", server.Addr())
	look := func(text string) []checkup {
		t.Helper()
		d, _, _, _ := diagnosed(t, text, "--output", "json")
		return d.Checks
	}
	order(t, server, "set", "biz:coupon:lock:sound", "x", "px", "600000")
	order(t, server, "set", "biz:coupon:note", "x")
	found := look(text)
	wantNoFault(t, found, main)
	wantCheck(t, found, main, "ok keys:", "1 locks and records")

	order(t, server, "set", "biz:coupon:lock:never", "a-secret-id")
	order(t, server, "sadd", "biz:coupon:lock:set", "x")
	order(t, server, "set", "biz:coupon:lock:hour", "x", "px", "3600000")
	order(t, server, "set", "{biz:coupon:lock:sound}:fence", "5")
	order(t, server, "hset", "{biz:coupon:lock:sound}:depth", "id", "x")
	order(t, server, "pexpire", "{biz:coupon:lock:sound}:depth", "7200000")
	order(t, server, "hset", "biz:user:42:lock:x", "theirs", "1")
	d, code, _, _ := diagnosed(t, text, "--output", "json")
	if code != ExitError || d.Grade != gradeFail {
		t.Errorf("code %d, %s", code, d.Grade)
	}
	wantCheck(t, d.Checks, main, "fail keys:", `"biz:coupon:lock:never" never ends`)
	wantCheck(t, d.Checks, main, "fail keys:", `"biz:coupon:lock:set" is a set and no string`)
	wantCheck(t, d.Checks, main, "fail keys:", `"biz:coupon:lock:hour" is held for another 1h0m0s`)
	wantCheck(t, d.Checks, main, "warn keys:", `"{biz:coupon:lock:sound}:fence" never ends`)
	wantCheck(t, d.Checks, main, "warn keys:", `"{biz:coupon:lock:sound}:depth" lasts for another 2h0m0s`)
	for _, c := range d.Checks {
		if strings.Contains(c.Found, ":depth") && !strings.Contains(c.Remedy, "clock") {
			t.Errorf("what to do about %s: %s", c.Found, c.Remedy)
		}
	}
	if all := strings.Join(of(d.Checks, main), "\n"); strings.Contains(all, "coupon:note") || strings.Contains(all, "user:42") {
		t.Errorf("it tells what is none of its business: %v", all)
	}
	_, code, stdout, _ := diagnosed(t, text)
	if code != ExitError || !strings.Contains(stdout, `"biz:coupon:lock:never" never ends`) || !strings.Contains(stdout, "to do: tierlock explain") || strings.Contains(stdout, "a-secret-id") {
		t.Errorf("code %d:\n%s", code, stdout)
	}
	if left := order(t, server, "dbsize"); left != "8" {
		t.Errorf("%s keys are left of 8", left)
	}

	// As a user of few rights it says that it did not look, and finds no fault with that.
	order(t, server, "acl", "setuser", "tierlock", "on", ">secret", "~biz:*", "~{biz:*", "~tierlock:probe:*", "&*", "+@all", "-scan")
	t.Setenv("TIERLOCK_TEST_PASSWORD", "secret")
	found = look(storeFile(t, ", username: tierlock, password_env: TIERLOCK_TEST_PASSWORD", server.Addr()))
	wantNoFault(t, found, main)
	wantCheck(t, found, main, "ok keys:", "not gone through")
}

// A server that was not gone through to its end says why, and is no sound one where next to
// nothing was seen of it.
func TestSurveyThatWasCutShortIsGraded(t *testing.T) {
	const sound = "4 locks and records beside them, none is out of order"
	for want, s := range map[string]redisstore.Survey{
		"ok keys: s: " + sound: {Passed: 1000, Keys: 4, Whole: true},
		"warn keys: s: hardly gone through; its time was up after some 0 keys: it hung, or is very slow":    {Late: true},
		"warn keys: s: hardly gone through; its time was up after some 9000 keys: it hung, or is very slow": {Late: true, Passed: 9000, Keys: 4},
		"ok keys: s: " + sound + "; its time was up after some 50000 keys":                                  {Late: true, Passed: 50000, Keys: 4},
		"ok keys: s: " + sound + "; it has more than 1000000 keys, and the others were not gone through":    {Passed: 1000000, Keys: 4},
	} {
		s.Addr = "s"
		var e examiner
		judgeStrays(&e, &s)
		if got := of(e.found, ""); len(got) != 1 || got[0] != want {
			t.Errorf("%+v is told as %q, want %q", s, got, want)
		}
	}
}

// What doctor takes for the longest ttl is the longest that a chain may have.
func TestLongestTTLIsTheGateways(t *testing.T) {
	p := gateway.Strong("a lock of the longest time", gateway.Reconcile)
	for ttl, bad := range map[time.Duration]bool{longestTTL: false, longestTTL + time.Millisecond: true} {
		p.TTL = ttl
		if err := p.Validate(); (err != nil) != bad {
			t.Errorf("ttl %v: %v", ttl, err)
		}
	}
}
