package degrade_test

import (
	"fmt"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// A refused connection takes both chains down at once. The weak one goes on in its
// process, the strong one fails fast; with a version guard it would go on optimistically.
func ExampleDecide() {
	at := time.Now()
	for _, p := range []degrade.Policy{degrade.Strong(), degrade.Weak()} {
		m, edge, _ := degrade.Start(at).Step(&p, degrade.Signals{At: at, Refused: true})
		r := degrade.Decide(&p, nil, &m, at, 0)
		switch r.Tier {
		case 0:
			fmt.Println(p.Class, edge.To, r.Verdict.Outcome, r.Verdict.Advice)
		default:
			fmt.Println(p.Class, edge.To, r.Tier)
		}
	}
	// Output:
	// strong down system_error fail
	// weak down local
}

// An order lies over health for as long as it lasts, and not a moment longer.
func ExampleOrder() {
	at := time.Now()
	p, m := degrade.Weak(), degrade.Start(at)
	o := &degrade.Order{Mode: tierlock.ModeBypass, Until: at.Add(time.Minute), Reason: "drill", By: "oncall"}
	fmt.Println(degrade.Decide(&p, o, &m, at, 0).Tier)
	fmt.Println(degrade.Decide(&p, o, &m, o.Until, 0).Tier)
	// Output:
	// bypass
	// shared
}
