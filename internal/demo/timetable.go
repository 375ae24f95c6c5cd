//go:build !nodemo

package demo

import "time"

// Timetable is how long each part of the story takes and what the product's own times are
// shortened to for it. The story prints every shortened one at its start.
type Timetable struct {
	Normal    time.Duration
	Slow      time.Duration
	Saturated time.Duration // the wire fills in it, and the chains step down after SaturateIn
	Relief    time.Duration // the store is well for a moment: a hold is taken that will go stale
	Down      time.Duration
	Switch    time.Duration // an operator's bypass, until its own end
	StillDown time.Duration // of Switch: the store comes back only after it
	Bypasses  int64         // the switch is thrown again until so many grants went past the lock; 0: once
	Back      time.Duration
	Repair    time.Duration // at most: reading, checking, repairing

	Slack time.Duration // a part may take this much longer until what it shows has been seen

	SlowBy time.Duration // replies come this much later while slow: more than the attempt
	FillBy time.Duration // and while the wire fills: less than half the attempt, or it would be slow

	SaturateIn time.Duration // the product's default is 5 s
	RelaxIn    time.Duration // 2 s
	SteadyIn   time.Duration // 1 min: longer than a part takes, and nobody would oversleep after a relapse
	RampEvery  time.Duration // 1 s
	Heartbeat  time.Duration // 5 s
	Quiet      time.Duration // 20 s
	Idle       time.Duration // 1 h
	StaleTTL   time.Duration // of the hold that goes stale, 60 s elsewhere in the demo

	Attempt  time.Duration // one question to the store; the product's default
	Wire     int           // connections of each instance for taking locks; the product's default is 64
	Buyers   int           // customers of the order service on each instance, one request at a time each
	Claimers int           // and of the coupon service
	SKUs     int           // that many customers want
	Users    int           // who claim coupons: they come back, and have claimed before
	Think    time.Duration // of a customer between two requests
	Rush     time.Duration // the same while the wire is to fill, and of claims under bypass
	Between  time.Duration // check and claim of a coupon
}

// Embedded is the story for a person to watch: under 45 s, everything in this process.
func Embedded() Timetable {
	return Timetable{
		Normal: 5 * time.Second, Slow: 5 * time.Second, Saturated: 6 * time.Second, Relief: time.Second, Down: 5 * time.Second,
		Switch: 8 * time.Second, StillDown: 4 * time.Second, Back: 4 * time.Second, Repair: 12 * time.Second, Slack: 2 * time.Second,
		SlowBy: 300 * time.Millisecond, FillBy: 80 * time.Millisecond,
		SaturateIn: 2 * time.Second, RelaxIn: 1500 * time.Millisecond, SteadyIn: 1500 * time.Millisecond, RampEvery: 500 * time.Millisecond,
		Heartbeat: 500 * time.Millisecond, Quiet: 3 * time.Second, Idle: 30 * time.Second, StaleTTL: time.Second,
		Attempt: 200 * time.Millisecond, Wire: 8, Buyers: 12, Claimers: 12, SKUs: 12, Users: 2000,
		Think: 80 * time.Millisecond, Rush: 15 * time.Millisecond, Between: 2 * time.Millisecond,
	}
}

// Real is the story on real servers: under 90 s. A push from a config centre may come late,
// so its switch lies longer.
func Real() Timetable {
	t := Embedded()
	t.Switch, t.StillDown, t.Back, t.Repair, t.Slack = 16*time.Second, 8*time.Second, 6*time.Second, 20*time.Second, 8*time.Second
	return t
}

// round is how long the parts under load take together.
func (t Timetable) round() time.Duration {
	return t.Normal + t.Slow + t.Saturated + t.Relief + t.Down + t.Switch + t.Back
}
