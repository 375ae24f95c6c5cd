package switchctl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacossource"
)

func TestMain(m *testing.M) {
	// The Nacos client's rolling log file has a goroutine without an end.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

func TestAFileIsAPlace(t *testing.T) {
	testPlace(t, switchctl.File(filepath.Join(t.TempDir(), "switch.yaml")))
}

func TestNacosIsAPlace(t *testing.T) {
	server := servers.Nacos(t)
	open := func(id string) *nacossource.Source {
		source, err := nacossource.New(nacossource.Config{Addr: server.Addr(), DataID: id, CacheDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := source.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return source
	}
	testPlace(t, switchctl.Nacos{Document: open("switch"), Past: open("switch.history")})
}

// testPlace publishes three versions, one of them for a document that is not there any
// more, and reads them and their history back.
func testPlace(t *testing.T, place switchctl.Place) {
	t.Helper()
	fetch := func() []byte {
		text, err := place.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := func(version int) []byte { return fmt.Appendf(nil, `{"version": %d, "chains": {}}`, version) }
	first := fetch()
	if len(first) != 0 {
		t.Fatalf("a document before the first: %q", first)
	}
	if err := place.Publish(t.Context(), first, text(1)); err != nil {
		t.Fatal(err)
	}
	second := fetch()
	if err := place.Publish(t.Context(), second, text(2)); err != nil {
		t.Fatal(err)
	}
	if err := place.Publish(t.Context(), second, text(2)); !errors.Is(err, switchctl.ErrChanged) {
		t.Errorf("error %v, want ErrChanged: the change was made for version 1", err)
	}
	if d, err := switchcfg.Parse(fetch()); err != nil || d.Version != 2 {
		t.Errorf("%+v, %v, want version 2", d, err)
	}
	for version := range uint64(3) {
		entry := switchctl.Entry{At: now, By: "oncall", Document: switchcfg.Document{Version: version + 1, Chains: map[string]switchcfg.Directive{"coupon": bypass(10)}}}
		if err := place.Keep(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
	}
	all, err := place.History(t.Context())
	if err != nil || len(all) != 3 || all[0].Document.Version != 1 || all[2].Document.Version != 3 || !all[2].At.Equal(now) || all[1].Document.Chains["coupon"].By != "oncall" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestAHistoryThatACrashCutOffIsReadAsFarAsItGoes(t *testing.T) {
	file := switchctl.File(filepath.Join(t.TempDir(), "switch.yaml"))
	if err := file.Keep(t.Context(), switchctl.Entry{At: now, By: "a"}); err != nil {
		t.Fatal(err)
	}
	path := string(file) + ".history"
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(string(kept)+string(kept[:20])), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := file.History(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%d entries, %v, want the whole one", len(all), err)
	}
	if err := os.WriteFile(path, []byte("not JSON\n"+string(kept)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := file.History(t.Context()); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("error %v, want one that names line 1", err)
	}
}
