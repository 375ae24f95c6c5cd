package daemon

import (
	"strings"
	"testing"

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
	d, code, _, _ := diagnosed(t, text, "--output", "json")
	if code != ExitError || d.Grade != gradeFail {
		t.Errorf("code %d, %s", code, d.Grade)
	}
	wantCheck(t, d.Checks, main, "fail keys:", `"biz:coupon:lock:never" never ends`)
	wantCheck(t, d.Checks, main, "fail keys:", `"biz:coupon:lock:set" is a set and no string`)
	wantCheck(t, d.Checks, main, "fail keys:", `"biz:coupon:lock:hour" is held for another 1h0m0s`)
	wantCheck(t, d.Checks, main, "warn keys:", `"{biz:coupon:lock:sound}:fence" never ends`)
	if all := of(d.Checks, main); strings.Contains(strings.Join(all, "\n"), "coupon:note") {
		t.Errorf("it tells what is none of its business: %v", all)
	}
	_, code, stdout, _ := diagnosed(t, text)
	if code != ExitError || !strings.Contains(stdout, `"biz:coupon:lock:never" never ends`) || !strings.Contains(stdout, "to do: tierlock explain") || strings.Contains(stdout, "a-secret-id") {
		t.Errorf("code %d:\n%s", code, stdout)
	}
	if left := order(t, server, "dbsize"); left != "6" {
		t.Errorf("%s keys are left of 6", left)
	}

	// As a user of few rights it says that it did not look, and finds no fault with that.
	order(t, server, "acl", "setuser", "tierlock", "on", ">secret", "~biz:*", "~{biz:*", "~tierlock:probe:*", "&*", "+@all", "-scan")
	t.Setenv("TIERLOCK_TEST_PASSWORD", "secret")
	found = look(storeFile(t, ", username: tierlock, password_env: TIERLOCK_TEST_PASSWORD", server.Addr()))
	wantNoFault(t, found, main)
	wantCheck(t, found, main, "ok keys:", "not gone through")
}
