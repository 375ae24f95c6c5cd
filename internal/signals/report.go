package signals

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tierlock/tierlock/switchcfg"
)

// Report compares what would have happened under two policies.
type Report struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Dropped int64     `json:"dropped,omitempty"` // lines that the recording lacks
	Chains  []Chain   `json:"chains"`            // by name
}

// Chain is one chain of a Report.
type Chain struct {
	Chain      string            `json:"chain"`
	Changed    map[string]Values `json:"changed"`      // fields of the policy
	Unrecorded float64           `json:"unrecorded_s"` // of the time between, in which nothing was recorded
	Really     Outcome           `json:"really"`       // what the recording says has happened; it holds no times
	Recorded   Outcome           `json:"recorded"`     // the replay under the recorded policy
	Simulated  Outcome           `json:"simulated"`    // the replay under the other
	Faithful   bool              `json:"faithful"`     // the recorded policy steps as it really did: else the recording lacks something
}

// Values is a field's two values.
type Values struct {
	Was string `json:"was"`
	Is  string `json:"is"`
}

// Outcome is what came of one policy.
type Outcome struct {
	Steps   []Step             `json:"steps"`
	Seconds map[string]float64 `json:"seconds,omitempty"` // by what a new call got: a tier, slow, recovering, refused
	Calls   map[string]int     `json:"calls"`             // the same; of a replay estimated from the time
}

func (s *simulation) report() *Report {
	r := &Report{From: s.from, To: s.to, Dropped: s.dropped}
	for _, name := range slices.Sorted(maps.Keys(s.chains)) {
		c := s.chains[name]
		x := Chain{
			Chain: name, Changed: map[string]Values{}, Unrecorded: c.unrecorded.Seconds(),
			Really:   Outcome{Steps: append([]Step{}, c.seen...), Calls: c.calls},
			Recorded: c.recorded.outcome(), Simulated: c.other.outcome(),
		}
		x.Faithful = alike(x.Really.Steps, x.Recorded.Steps)
		was := switchcfg.Words(c.recorded.policy)
		for field, is := range switchcfg.Words(c.other.policy) {
			if was[field] != is {
				x.Changed[field] = Values{was[field], is}
			}
		}
		r.Chains = append(r.Chains, x)
	}
	return r
}

func (w *world) outcome() Outcome {
	o := Outcome{Steps: append([]Step{}, w.steps...), Seconds: map[string]float64{}, Calls: map[string]int{}}
	for what, d := range w.spent {
		o.Seconds[what] = math.Round(d.Seconds()*1000) / 1000
	}
	for what, n := range w.calls {
		o.Calls[what] = int(math.Round(n))
	}
	return o
}

// alike tells whether two lists have the same steps at about the same times.
func alike(a, b []Step) bool {
	return slices.EqualFunc(a, b, func(x, y Step) bool {
		apart := x.At.Sub(y.At).Abs()
		x.At, y.At = time.Time{}, time.Time{}
		return x == y && apart <= closely
	})
}

// WriteText writes the report for a person.
func (r *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s to %s (%v)\n", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339), r.To.Sub(r.From).Round(time.Second))
	if r.Dropped > 0 {
		fmt.Fprintf(&b, "the recording lacks %d lines that came too fast\n", r.Dropped)
	}
	for i := range r.Chains {
		r.Chains[i].write(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (c *Chain) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n%s\n", c.Chain)
	for _, field := range slices.Sorted(maps.Keys(c.Changed)) {
		fmt.Fprintf(b, "  %s %s instead of %s\n", field, c.Changed[field].Is, c.Changed[field].Was)
	}
	if len(c.Changed) == 0 {
		fmt.Fprintln(b, "  the recorded policy, unchanged")
	}
	if c.Unrecorded > 0 {
		fmt.Fprintf(b, "  %v were not recorded\n", seconds(c.Unrecorded))
	}
	if !c.Faithful {
		fmt.Fprintln(b, "  the replay under the recorded policy steps otherwise than really happened: read the rest with care")
	}
	fmt.Fprintf(b, "  %-12s %12s %12s %12s %12s %12s\n", "new calls get", "time", "other", "calls", "replayed", "other")
	for _, what := range kinds(c) {
		fmt.Fprintf(b, "  %-13s %12v %12v %12d %12d %12d\n", what, seconds(c.Recorded.Seconds[what]), seconds(c.Simulated.Seconds[what]),
			c.Really.Calls[what], c.Recorded.Calls[what], c.Simulated.Calls[what])
	}
	for _, o := range []struct {
		name string
		Outcome
	}{{"recorded policy", c.Recorded}, {"other policy", c.Simulated}} {
		fmt.Fprintf(b, "  %s: %d steps\n", o.name, len(o.Steps))
		for _, s := range o.Steps {
			fmt.Fprintf(b, "    %s %s%s to %s", s.At.Format("15:04:05.000"), before(s.Target), s.From, s.To)
			if s.Reason != "" && string(s.Reason) != s.To.String() {
				fmt.Fprintf(b, " (%s)", s.Reason)
			}
			fmt.Fprintln(b)
		}
	}
}

func before(target string) string {
	if target == "" {
		return ""
	}
	return target + " "
}

// kinds is all that calls got under either policy, or really.
func kinds(c *Chain) []string {
	all := map[string]bool{}
	for _, o := range []*Outcome{&c.Really, &c.Recorded, &c.Simulated} {
		for what := range o.Seconds {
			all[what] = true
		}
		for what := range o.Calls {
			all[what] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond)
}
