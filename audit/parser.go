package audit

import (
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

// Parser reads events as [Parse] does, several times as fast: it knows the plain shape of
// the events of holds and leaves everything else, faults included, to Parse. Words that
// come again and again (producers, chains, stores) are kept and shared. The zero Parser is
// ready; it is not safe for concurrent use.
type Parser struct {
	s     scanner
	words map[string]string
}

// mostWords bounds what a Parser keeps: names are few, and where they are not, sharing
// them is not worth their memory.
const mostWords = 4096

// Parse reads one event. It keeps nothing of text.
func (p *Parser) Parse(text []byte) (Event, error) {
	var e Event
	if p.plain(text, &e) {
		return e, nil
	}
	return Parse(text)
}

// word returns b as a string, the same one for the same bytes.
func (p *Parser) word(b []byte) string {
	if w, known := p.words[string(b)]; known {
		return w
	}
	w := string(b)
	if p.words == nil {
		p.words = map[string]string{}
	}
	if len(p.words) < mostWords {
		p.words[w] = w
	}
	return w
}

// plain reads an acquire, end or optimistic event that Parse would accept. It is false for
// any other text, and wherever it is not sure.
func (p *Parser) plain(text []byte, e *Event) bool {
	s := &p.s
	*s = scanner{text: text}
	var version uint64
	var id, key, holder, tier []byte
	for more := s.open(); more; more = s.next() {
		switch string(s.name()) {
		case "v":
			version = s.number()
		case "type":
			e.Type = holdType(s.text8())
		case "id":
			id = s.text8()
		case "producer":
			e.Producer = p.word(s.text8())
		case "epoch":
			e.Epoch = s.number()
		case "seq":
			e.Seq = s.number()
		case "prev":
			e.Prev = s.number()
		case "chain":
			e.Chain = p.word(s.text8())
		case "key":
			key = s.text8()
		case "holder":
			holder = s.text8()
		case "tier":
			tier = s.text8()
		case "store":
			e.Store = p.word(s.text8())
		case "exclusive":
			e.Exclusive = s.flag()
		case "token":
			if !s.null() {
				e.Token = tierlock.Token(s.number())
			}
		case "how":
			e.How = How(p.word(s.text8()))
		case "outcome":
			e.Outcome = Work(p.word(s.text8()))
		case "granted_at":
			e.GrantedAt = s.time()
		case "ended_at":
			e.EndedAt = s.time()
		case "ttl_ms":
			e.TTL = s.span(time.Millisecond, maxMillis)
		case "max_hold_ms":
			e.MaxHold = s.span(time.Millisecond, maxMillis)
		case "clock_error_us":
			e.ClockError = s.span(time.Microsecond, maxMillis*1000)
		case "reason":
			e.Reason = tierlock.Reason(p.word(s.text8()))
		case "switch":
			p.order(&e.Switch)
		case "business":
			p.business(&e.Business)
		default:
			return false
		}
	}
	if !s.done() || version != formatVersion || e.Type == "" || e.Producer == "" || e.Epoch == 0 || e.Prev >= e.Seq || len(holder) == 0 || e.GrantedAt.IsZero() {
		return false
	}
	if e.Type == TypeEnd && (e.EndedAt.IsZero() || e.How != Released && e.How != Lost && e.How != Expired && e.How != Forced) {
		return false
	}
	for e.Tier = tierlock.Shared; e.Tier.String() != string(tier); e.Tier++ {
		if e.Tier == tierlock.Bypass {
			return false
		}
	}
	if !isID(id, e) {
		return false
	}
	var err error
	if e.Key, err = tierlock.ParseKey(string(key)); err != nil {
		return false
	}
	e.Holder = string(holder)
	return true
}

func (p *Parser) order(o *Switch) {
	s := &p.s
	for more := s.open(); more; more = s.next() {
		switch string(s.name()) {
		case "version":
			o.Version = s.number()
		case "reason":
			o.Reason = p.word(s.text8())
		default:
			s.bad = true
		}
	}
}

func (p *Parser) business(b *Business) {
	s := &p.s
	for more := s.open(); more; more = s.next() {
		switch string(s.name()) {
		case "type":
			b.Type = p.word(s.text8())
		case "id":
			b.ID = string(s.text8())
		case "op":
			b.Op = p.word(s.text8())
		case "delta":
			b.Delta = s.signed()
		case "before":
			n := s.signed()
			b.Before = &n
		case "after":
			n := s.signed()
			b.After = &n
		default:
			s.bad = true
		}
	}
}

func holdType(b []byte) Type {
	switch string(b) {
	case string(TypeAcquire):
		return TypeAcquire
	case string(TypeEnd):
		return TypeEnd
	case string(TypeOptimistic):
		return TypeOptimistic
	}
	return ""
}

// isID tells whether id is producer/epoch/seq.
func isID(id []byte, e *Event) bool {
	n := len(e.Producer)
	if len(id) < n || string(id[:n]) != e.Producer {
		return false
	}
	var room [48]byte
	rest := strconv.AppendUint(append(room[:0], '/'), e.Epoch, 10)
	rest = strconv.AppendUint(append(rest, '/'), e.Seq, 10)
	return string(id[n:]) == string(rest)
}

// scanner walks over one JSON object without white space. What it does not understand sets
// bad, and everything after that is worthless.
type scanner struct {
	text []byte
	at   int
	bad  bool
}

// byte steps over c.
func (s *scanner) byte(c byte) {
	if s.at >= len(s.text) || s.text[s.at] != c {
		s.bad = true
		return
	}
	s.at++
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// open enters an object; next goes on in it. Both are false at its end.
func (s *scanner) open() bool {
	s.byte('{')
	if s.peek() == '}' {
		s.at++
		return false
	}
	return !s.bad
}

func (s *scanner) next() bool {
	if s.peek() == '}' {
		s.at++
		return false
	}
	s.byte(',')
	return !s.bad
}

// done tells whether all of the text was understood.
func (s *scanner) done() bool { return !s.bad && s.at == len(s.text) }

func (s *scanner) name() []byte {
	name := s.text8()
	s.byte(':')
	return name
}

// text8 is a string of printable ASCII without escapes; longer alphabets are for Parse.
func (s *scanner) text8() []byte {
	s.byte('"')
	from := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[from : s.at-1]
		case c < ' ' || c > '~' || c == '\\':
			s.bad = true
			return nil
		}
		s.at++
	}
	s.bad = true
	return nil
}

// number is a whole number of at most 18 digits; longer ones are left to Parse.
func (s *scanner) number() uint64 {
	from, n := s.at, uint64(0)
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		n = n*10 + uint64(s.text[s.at]-'0')
		s.at++
	}
	digits := s.at - from
	if digits == 0 || digits > 18 || digits > 1 && s.text[from] == '0' {
		s.bad = true
	}
	return n
}

// span is a duration of at most so many units.
func (s *scanner) span(unit time.Duration, most uint64) time.Duration {
	n := s.number()
	if n > most {
		s.bad = true
		return 0
	}
	return time.Duration(n) * unit
}

func (s *scanner) signed() int64 {
	if s.peek() != '-' {
		return int64(s.number())
	}
	s.at++
	return -int64(s.number())
}

func (s *scanner) flag() bool {
	if s.literal("true") {
		return true
	}
	if !s.literal("false") {
		s.bad = true
	}
	return false
}

func (s *scanner) null() bool { return s.literal("null") }

func (s *scanner) literal(word string) bool {
	if end := s.at + len(word); end <= len(s.text) && string(s.text[s.at:end]) == word {
		s.at = end
		return true
	}
	return false
}

// time is a moment as events carry it: RFC 3339 in UTC, with up to nine decimals.
func (s *scanner) time() time.Time {
	b := s.text8()
	const plain = len("2006-01-02T15:04:05Z")
	if len(b) < plain || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[len(b)-1] != 'Z' {
		s.bad = true
		return time.Time{}
	}
	year, month, day := s.digits(b[0:4]), s.digits(b[5:7]), s.digits(b[8:10])
	hour, minute, second := s.digits(b[11:13]), s.digits(b[14:16]), s.digits(b[17:19])
	nanos := 0
	if len(b) > plain {
		fraction := b[20 : len(b)-1]
		if b[19] != '.' || len(fraction) == 0 || len(fraction) > 9 {
			s.bad = true
			return time.Time{}
		}
		nanos = s.digits(fraction)
		for range 9 - len(fraction) {
			nanos *= 10
		}
	}
	if s.bad || year == 0 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 59 {
		s.bad = true
		return time.Time{}
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if t.Day() != day { // no such day in that month
		s.bad = true
	}
	return t
}

func (s *scanner) digits(b []byte) (n int) {
	for _, c := range b {
		if c < '0' || c > '9' {
			s.bad = true
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}
