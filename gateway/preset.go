package gateway

import (
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

// Preset names a granularity: how long its locks last and are waited for. A file's preset
// is read before its other fields, so a ttl or wait beside it counts.
type Preset uint8

// The presets.
const (
	PresetResource Preset = iota + 1 // short work on one resource: ttl 2 s, wait 100 ms
	PresetBusiness                   // one business step, the default: 15 s, 300 ms
	PresetFlow                       // a whole flow: 60 s, 2 s, and tries to fill it
)

var presetWords = [...]string{PresetResource: "resource", PresetBusiness: "business", PresetFlow: "flow"}

// String returns the word; empty for none.
func (p Preset) String() string {
	if int(p) >= len(presetWords) {
		return ""
	}
	return presetWords[p]
}

// MarshalText returns the word; empty for none.
func (p Preset) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts resource, business and flow.
func (p *Preset) UnmarshalText(text []byte) error {
	for i, word := range presetWords {
		if word != "" && word == string(text) {
			*p = Preset(i)
			return nil
		}
	}
	return tierlock.Invalid("preset", string(text), presetRule)
}

const presetRule = "want resource, business or flow"

func (p Preset) validate() error {
	if p > PresetFlow {
		return tierlock.Invalid("preset", strconv.Itoa(int(p)), presetRule)
	}
	return nil
}

// With returns p with the ttl, wait and tries of preset; of none, p itself.
func (p Policy) With(preset Preset) Policy {
	switch preset {
	case PresetResource:
		p.TTL, p.Wait = 2*time.Second, 100*time.Millisecond
	case PresetBusiness:
		p.TTL, p.Wait = 15*time.Second, 300*time.Millisecond
	case PresetFlow:
		p.TTL, p.Wait = time.Minute, 2*time.Second
		p.Schedule = defaultSchedule
		p.Schedule.Tries = flowTries
	default:
		return p
	}
	p.Preset = preset
	return p
}

// Resource returns p with [PresetResource].
func (p Policy) Resource() Policy { return p.With(PresetResource) }

// Business returns p with [PresetBusiness].
func (p Policy) Business() Policy { return p.With(PresetBusiness) }

// Flow returns p with [PresetFlow].
func (p Policy) Flow() Policy { return p.With(PresetFlow) }
