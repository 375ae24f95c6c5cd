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
	"testing/synctest"
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
		synctest.Test(t, func(t *testing.T) {
			overtaken(t, path, func(d switchcfg.Document) error { return switchcfg.WriteFile(string(path), d) })
		})
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

var empty = []byte(`{"version": 1, "chains": {}}`)

// overtaken publishes where nothing is, and over what is there, and has somebody else publish
// another one over it each time: some servers do not compare, and tell nobody.
func overtaken(t *testing.T, place switchctl.Place, other func(switchcfg.Document) error) {
	t.Helper()
	var was []byte
	for version := uint64(1); version <= 2; version++ {
		ours := fmt.Appendf(nil, `{"version": %d, "chains": {}}`, version)
		if err := place.Publish(t.Context(), was, ours); err != nil {
			t.Fatal(err)
		}
		if err := place.Stands(t.Context(), was, ours); err != nil {
			t.Errorf("version %d: error %v: it stands", version, err)
		}
		if err := other(switchcfg.Document{Version: version, Chains: map[string]switchcfg.Directive{"coupon": {Mode: tierlock.ModeAuto}}}); err != nil {
			t.Fatal(err)
		}
		if err := place.Stands(t.Context(), was, ours); !errors.Is(err, switchctl.ErrOvertaken) {
			t.Errorf("version %d: error %v, want ErrOvertaken", version, err)
		}
		var err error
		if was, err = place.Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnOlderDocumentInNacosTellsOfNobody: where the server may have compared, it is of a node
// that is behind, and not of somebody who published in the same instant.
func TestAnOlderDocumentInNacosTellsOfNobody(t *testing.T) {
	server := nacostest.Start(t)
	place := switchctl.Nacos{Document: opener(t, server.Addr())("switch")}
	if err := place.Publish(t.Context(), nil, empty); err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"version": 2, "chains": {}}`)
	if err := place.Stands(t.Context(), empty, text); err != nil {
		t.Errorf("error %v, though the server may have compared", err)
	}
	if err := place.Stands(t.Context(), nil, text); !errors.Is(err, switchctl.ErrUnseen) {
		t.Errorf("error %v, want ErrUnseen: nobody has compared", err)
	}
}

// TestAPlaceThatLagsIsLookedAtOnceMore: what was there before, and nothing, tell of nobody else.
func TestAPlaceThatLagsIsLookedAtOnceMore(t *testing.T) {
	was := []byte(`{"version": 1, "chains": {}}`)
	text := []byte(`{"version": 2, "chains": {}}`)
	for name, c := range map[string]struct {
		first, then []byte // what is seen at the looks
		want        error
	}{
		"it was before, then ours": {was, text, nil},
		"it was nothing, then one": {nil, text, nil},
		"then somebody else's":     {nil, []byte(`{"version": 2, "chains": {coupon: {mode: auto}}}`), switchctl.ErrOvertaken},
		"a newer one":              {[]byte(`{"version": 3, "chains": {}}`), nil, nil},
		"it stays what was before": {was, was, switchctl.ErrUnseen},
		"it stays away":            {nil, nil, switchctl.ErrUnseen},
	} {
		t.Run(name, func(t *testing.T) {
			path := switchctl.File(filepath.Join(t.TempDir(), "switch.yaml"))
			see := func(text []byte) {
				if err := os.WriteFile(string(path), text, 0o600); err != nil {
					t.Error(err)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				see(c.first)
				later := time.AfterFunc(1500*time.Millisecond, func() { see(c.then) })
				defer later.Stop()
				if err := path.Stands(t.Context(), was, text); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
			})
		})
	}
}

// TestWhoDoesNotWaitHasPublishedAllTheSame: that nobody looked is told as that.
func TestWhoDoesNotWaitHasPublishedAllTheSame(t *testing.T) {
	path := switchctl.File(filepath.Join(t.TempDir(), "switch.yaml"))
	synctest.Test(t, func(t *testing.T) {
		if err := path.Publish(t.Context(), nil, empty); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := path.Stands(ctx, nil, empty); !errors.Is(err, switchctl.ErrUnlooked) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want ErrUnlooked and why", err)
		}
	})
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
