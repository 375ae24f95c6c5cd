package nacostest

import (
	"testing"

	"github.com/tierlock/tierlock/internal/servers"
)

// server is what both kinds of server can do.
type server interface {
	Addr() string
	Put(dataID, group, content string)
	Delete(dataID, group string)
	Kill()
	Restart()
}

// onBoth runs a test against the fake and against a real server: what holds of both is what
// a client may be tested with.
func onBoth(t *testing.T, test func(t *testing.T, s server)) {
	t.Helper()
	t.Run("fake", func(t *testing.T) { test(t, Start(t)) })
	t.Run("rnacos", func(t *testing.T) { test(t, servers.Nacos(t)) })
}

const group = "TIERLOCK"

func TestContractQueries(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := dial(t, s.Addr(), false)
		if h := w.ask(configQuery, at("a")); h.kind != "ConfigQueryResponse" || h.good() || h.ErrorCode != codeNotFound || h.Content != "" {
			t.Errorf("nothing there: %+v", h)
		}
		s.Put("a", group, "one")
		first := w.ask(configQuery, at("a"))
		if first.kind != "ConfigQueryResponse" || !first.good() || first.Content != "one" || first.MD5 != sumOf("one") || first.LastModified == 0 {
			t.Errorf("%+v", first)
		}
		s.Put("a", group, "two")
		if h := w.ask(configQuery, at("a")); h.Content != "two" || h.LastModified < first.LastModified {
			t.Errorf("after a change: %+v", h)
		}
		if h := w.ask(configQuery, map[string]any{"tenant": "", "group": "OTHER", "dataId": "a"}); h.ErrorCode != codeNotFound {
			t.Errorf("another group: %+v", h)
		}
		s.Delete("a", group)
		if h := w.ask(configQuery, at("a")); h.good() || h.ErrorCode != codeNotFound {
			t.Errorf("deleted: %+v", h)
		}
	})
}

func TestContractPublishes(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := dial(t, s.Addr(), false)
		if h := w.ask(configPublish, at("a", "content", "one")); h.kind != "ConfigPublishResponse" || !h.good() {
			t.Fatalf("publish: %+v", h)
		}
		if h := w.ask(configQuery, at("a")); h.Content != "one" {
			t.Errorf("published: %+v", h)
		}
		if h := w.ask(configRemove, at("a")); h.kind != "ConfigRemoveResponse" || !h.good() {
			t.Errorf("remove: %+v", h)
		}
		if h := w.ask(configQuery, at("a")); h.ErrorCode != codeNotFound {
			t.Errorf("removed: %+v", h)
		}
	})
}

func TestContractTellsChangesToWhoListens(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w, deaf := dial(t, s.Addr(), false), dial(t, s.Addr(), false)
		s.Put("a", group, "one")
		if c := w.listen("a", "", true); len(c) != 1 || c[0] != (changed{"", group, "a"}) {
			t.Errorf("with no text: %+v", c)
		}
		if c := w.listen("a", sumOf("one"), true); len(c) != 0 {
			t.Errorf("with the present text: %+v", c)
		}
		s.Put("b", group, "of nobody")
		s.Put("a", group, "two")
		w.told("a")
		s.Delete("a", group)
		w.told("a")
		if c := w.listen("a", sumOf("two"), true); len(c) != 1 {
			t.Errorf("with the text before it was deleted: %+v", c)
		}
		if n := len(deaf.pushes); n != 0 {
			t.Errorf("who does not listen was told %d times", n)
		}
	})
}

func TestContractForgetsListensWithTheirConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		s.Put("a", group, "one")
		w := dial(t, s.Addr(), false)
		w.listen("a", sumOf("one"), true)
		w.listen("a", sumOf("one"), false)
		s.Put("a", group, "two")
		again := dial(t, s.Addr(), false)
		if c := again.listen("a", sumOf("one"), true); len(c) != 1 {
			t.Errorf("changed while nobody listened: %+v", c)
		}
		if n := len(w.pushes); n != 0 {
			t.Errorf("who has stopped to listen was told %d times", n)
		}
	})
}

func TestContractKeepsConfigurationsOverARestart(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		s.Put("a", group, "one")
		w := dial(t, s.Addr(), false)
		if h := w.ask(configQuery, at("a")); h.Content != "one" {
			t.Fatalf("%+v", h)
		}
		s.Kill()
		if h, err := w.try(configQuery, at("a"), 5e9); err == nil {
			t.Errorf("a dead server answers %+v", h)
		}
		s.Restart()
		if h := dial(t, s.Addr(), false).ask(configQuery, at("a")); h.Content != "one" {
			t.Errorf("after the restart: %+v", h)
		}
	})
}
