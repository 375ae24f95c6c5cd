package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/breaker"
	"github.com/tierlock/tierlock/degrade"
)

// admit asks the sensor at now for a place on the wire, as the route allows, and waits for one
// until the attempt's deadline. An order to the store, and a chain that only observes, pass
// whatever the breaker says. again says that it turned the request away: the ladder may know a
// lower tier by now.
func (r *request) admit(ctx context.Context, route degrade.Route, now, deadline time.Time) (pass breaker.Pass, err *tierlock.Error, again bool) {
	ask := r.ladder.ask(now)
	ask.Deadline, ask.Forced = deadline, r.order != nil || r.policy.Ladder.Observe
	switch route.Admit {
	case degrade.AdmitTrickle:
		ask.Gate = breaker.GateTrickle
	case degrade.AdmitRamp:
		ask.Gate, ask.Share = breaker.GateRamp, route.Share
	case degrade.AdmitUnder:
		ask.Gate, ask.Share = breaker.GateUnder, route.Share
	}
	pass, cause := r.ladder.target.sensor.Enter(ctx, ask)
	switch {
	case cause == nil:
		return pass, nil, false
	case canceled(ctx, time.Now()):
		return pass, r.because(tierlock.ReasonCanceled, context.Cause(ctx)), false
	case errors.Is(cause, breaker.ErrTrickle), errors.Is(cause, breaker.ErrShare):
		return pass, r.because(route.Reason, nil), false
	case errors.Is(cause, breaker.ErrOpen):
		r.ladder.step() // an open breaker is a sign of its own, and nobody else may have looked yet
		return pass, r.because(tierlock.ReasonOpen, nil), true
	}
	return pass, r.because(tierlock.ReasonSaturated, nil), false
}
