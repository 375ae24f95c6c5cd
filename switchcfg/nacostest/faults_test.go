package nacostest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestALostPushIsNotToldLater(t *testing.T) {
	s := Start(t)
	w := dial(t, s.Addr(), false)
	w.listen("a", "", true)
	s.LosePushes(true)
	s.Put("a", group, "one")
	w.ask(configPublish, at("a", "content", "two"))
	s.LosePushes(false)
	s.Put("a", group, "three")
	w.told("a")
	if n := len(w.pushes); n != 0 {
		t.Errorf("%d more pushes", n)
	}
	if h := w.ask(configQuery, at("a")); h.Content != "three" {
		t.Errorf("%+v", h)
	}
}

func TestRefusedIs403ForWhateverReadsOrChangesAText(t *testing.T) {
	s := Start(t)
	s.Put("a", group, "one")
	w := dial(t, s.Addr(), false)
	s.Refuse(true)
	for _, kind := range []string{configQuery, configPublish, configRemove} {
		if h := w.ask(kind, at("a", "content", "two")); h.good() || h.ErrorCode != codeRefused || h.Content != "" {
			t.Errorf("%s: %+v", kind, h)
		}
	}
	if changed := w.listen("a", "", true); len(changed) != 1 {
		t.Errorf("listen: %+v", changed)
	}
	if h := w.ask(healthCheck, nil); !h.good() {
		t.Errorf("health: %+v", h)
	}
	s.Refuse(false)
	if h := w.ask(configQuery, at("a")); h.Content != "one" {
		t.Errorf("changed while it was refused: %+v", h)
	}
	if s.Queries() != 2 || s.Listens() != 1 {
		t.Errorf("counted %d queries, %d listens", s.Queries(), s.Listens())
	}
}

func TestAFrozenServerIsSilentAndAnswersWhenItThaws(t *testing.T) {
	s := Start(t)
	s.Put("a", group, "one")
	w := dial(t, s.Addr(), false)
	w.listen("a", sumOf("one"), true)
	s.Freeze()
	s.Freeze()
	if h, err := w.try(configQuery, at("a"), 50*time.Millisecond); err == nil {
		t.Errorf("a frozen server answers %+v", h)
	}
	s.Put("a", group, "two")
	if len(w.pushes) > 0 {
		t.Error("a frozen server pushes")
	}
	s.Thaw()
	s.Thaw()
	w.told("a")
	if h := w.ask(configQuery, at("a")); h.Content != "two" {
		t.Errorf("%+v", h)
	}
	s.Freeze() // a server that ends while it is silent ends all the same
}

func TestOldAnswersComeAfterNewOnes(t *testing.T) {
	s := Start(t)
	s.Put("a", group, "one")
	s.Put("a", group, "two")
	w := dial(t, s.Addr(), false)
	s.AnswerOld(1)
	for _, want := range []string{"one", "two"} {
		if h := w.ask(configQuery, at("a")); h.Content != want || h.MD5 != sumOf(want) {
			t.Errorf("%+v, want %s", h, want)
		}
	}
}

func TestCompareAndSet(t *testing.T) {
	s := Start(t)
	s.Put("a", group, "one")
	w := dial(t, s.Addr(), false)
	if h := w.ask(configPublish, at("a", "content", "two", "casMd5", sumOf("none"))); h.good() || s.Get("a", group) != "one" {
		t.Errorf("with the sum of another text: %+v", h)
	}
	if h := w.ask(configPublish, at("a", "content", "two", "casMd5", sumOf("one"))); !h.good() || s.Get("a", group) != "two" {
		t.Errorf("with its sum: %+v", h)
	}
	if h := w.ask(configPublish, at("a", "content", "")); h.good() {
		t.Errorf("nothing was published: %+v", h)
	}
}

func TestWhoHasSetUpNoStreamIsToldSo(t *testing.T) {
	w := dial(t, Start(t).Addr(), true)
	if h := w.ask(configQuery, at("a")); h.kind != "ErrorResponse" || h.ErrorCode != codeUnregistered {
		t.Errorf("%+v", h)
	}
}

func TestAnAccountNeedsALogin(t *testing.T) {
	s := Start(t)
	s.Put("a", group, "one")
	s.Account("shop", "hunter2")
	w := dial(t, s.Addr(), false)
	if h := w.ask(configQuery, at("a")); h.ErrorCode != codeRefused {
		t.Errorf("without a token: %+v", h)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	login := func(password string) int {
		resp, err := client.PostForm("http://"+s.Addr()+"/nacos/v1/auth/users/login", url.Values{"username": {"shop"}, "password": {password}})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if code := login("wrong"); code != http.StatusForbidden || s.Logins() != 0 {
		t.Errorf("a wrong password: %d", code)
	}
	if code := login("hunter2"); code != http.StatusOK || s.Logins() != 1 {
		t.Errorf("the password: %d", code)
	}
	if h := w.ask(configQuery, at("a", "token", "token-1")); h.Content != "one" {
		t.Errorf("with the token: %+v", h)
	}
	s.Revoke()
	if h := w.ask(configQuery, at("a", "token", "token-1")); h.ErrorCode != codeRefused || !strings.Contains(h.Message, "authorization") {
		t.Errorf("with a revoked token: %+v", h)
	}
}
