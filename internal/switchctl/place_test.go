package switchctl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacossource"
	"github.com/tierlock/tierlock/switchcfg/nacostest"
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
	open := opener(t, server.Addr())
	testPlace(t, switchctl.Nacos{Document: open("switch"), Past: open("switch.history")})
}

// TestOfTwoWhoPublishInOneInstantOneIsTold: both have looked and seen nothing, so no place can
// compare for them. The one whose document does not stand must not believe that it does.
func TestOfTwoWhoPublishInOneInstantOneIsTold(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		path := switchctl.File(filepath.Join(t.TempDir(), "switch.yaml"))
		overtaken(t, path, func(d switchcfg.Document) error { return switchcfg.WriteFile(string(path), d) })
	})
	nacos := func(t *testing.T, addr string) {
		open := opener(t, addr)
		place, other := switchctl.Nacos{Document: open("switch")}, open("switch")
		overtaken(t, place, func(d switchcfg.Document) error {
			text, err := json.Marshal(d)
			if err != nil {
				return err
			}
			return other.Publish(t.Context(), nil, text) // as one that has seen nothing there
		})
	}
	t.Run("fake", func(t *testing.T) { nacos(t, nacostest.Start(t).Addr()) })
	t.Run("rnacos", func(t *testing.T) { nacos(t, servers.Nacos(t).Addr()) })
}

// overtaken publishes version 1 where nothing is, and has somebody else publish another one
// over it.
func overtaken(t *testing.T, place switchctl.Place, other func(switchcfg.Document) error) {
	t.Helper()
	published, over := make(chan bool), make(chan bool)
	t.Cleanup(switchctl.SetPause(func(context.Context) error {
		close(published)
		<-over
		return nil
	}))
	told := make(chan error, 1)
	go func() { told <- place.Publish(t.Context(), nil, []byte(`{"version": 1, "chains": {}}`)) }()
	select {
	case <-published:
	case err := <-told:
		t.Fatalf("not published: %v", err)
	}
	err := other(switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{"coupon": {Mode: tierlock.ModeAuto}}})
	close(over)
	if err != nil {
		t.Error(err)
	}
	if err := <-told; !errors.Is(err, switchctl.ErrOvertaken) {
		t.Errorf("error %v, want ErrOvertaken", err)
	}
}

// opener opens sources on a server, each closed with its test.
func opener(t *testing.T, addr string) func(id string) *nacossource.Source {
	return func(id string) *nacossource.Source {
		source, err := nacossource.New(nacossource.Config{Addr: addr, DataID: id, CacheDir: t.TempDir()})
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
