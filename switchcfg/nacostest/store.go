package nacostest

import (
	"crypto/md5" //nolint:gosec // the protocol's name for a content
	"encoding/hex"
	"sync"
	"time"
)

// id names a configuration. The public namespace is "".
type id struct{ tenant, group, dataID string }

// entry is what is kept under an id.
type entry struct {
	text     string
	before   string // what was there before the last change
	modified time.Time
}

// store keeps configurations over restarts.
type store struct {
	mu    sync.Mutex
	texts map[id]entry // guarded by mu
}

// Put publishes a configuration in the public namespace, and tells who listens.
func (s *Server) Put(dataID, group, content string) {
	s.change(id{"", group, dataID}, content)
}

// Delete removes a configuration from the public namespace, and tells who listens.
func (s *Server) Delete(dataID, group string) { s.change(id{"", group, dataID}, "") }

// Get is what is kept in the public namespace; "" for nothing.
func (s *Server) Get(dataID, group string) string { return s.store.get(id{"", group, dataID}).text }

// change sets or, with no text, removes, and pushes.
func (s *Server) change(at id, text string) {
	s.store.set(at, text)
	if !s.faults.losesPushes() {
		s.clients.notify(at)
	}
}

func (s *store) get(at id) entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts[at]
}

func (s *store) set(at id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[at] = entry{text: text, before: s.texts[at].text, modified: time.Now()}
}

// swap sets text if what is there has that sum, "" for whatever is there.
func (s *store) swap(at id, text, sum string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.texts[at]
	if sum != "" && sum != sumOf(was.text) {
		return false
	}
	s.texts[at] = entry{text: text, before: was.text, modified: time.Now()}
	return true
}

// sumOf is the protocol's sum of a text; "" of none.
func sumOf(text string) string {
	if text == "" {
		return ""
	}
	sum := md5.Sum([]byte(text)) //nolint:gosec // the protocol's name for a content
	return hex.EncodeToString(sum[:])
}
