package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

// Events of others hold what no database takes: their findings are stored all the same, no
// record is looked up by a name that is none, and what comes after them is worked on.
func TestEventsWithBytesThatNoDatabaseHolds(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, b database) {
		db, hook := claims(t, b)
		do(t, db, `INSERT INTO claims VALUES (1, 'u', 'a'), (2, 'u', 'b'), (3, 'good', 'a'), (4, 'good', 'b')`)
		table, err := SQLFindings(db, b.d)
		if err != nil {
			t.Fatal(err)
		}
		s := newStream(1)
		p, q := s.producer("p\x00"), s.producer("a")
		for i, c := range []struct{ lock, chain, id string }{
			{"a", "coupon", "good"}, {"b", "c\x00d", "u\x00"}, {"c", "c\xffd", "u\xff"}, {"d", "coupon", "u\x00"}, {"e", "", "good2"},
		} {
			for _, who := range []*producer{q, p} {
				iv := at(t, who.name+c.lock, tierlock.Bypass, who.name, 1000*i, 1000*i+500)
				iv.Chain, iv.Key, iv.Business.Type, iv.Business.ID = c.chain, key(t, "biz:coupon:lock:"+c.lock), "coupon", c.id
				who.write(acquireOf(&iv))
				who.write(endOf(&iv))
			}
		}
		for _, who := range []*producer{p, q} {
			who.seal(base.Add(time.Minute))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		j := mustJob(t, Config{
			Source: s.join(), Findings: []Findings{table}, Hooks: map[string]Hook{"coupon": hook}, Apply: true, Locker: &locker{tier: tierlock.Shared},
			Caps: Caps{FailureRatio: 0.01},
		})
		if err := errors.Join(j.Run(ctx), ctx.Err()); err != nil {
			t.Fatal(err)
		}
		found, err := table.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		states := map[State]int{}
		for _, f := range found {
			states[f.State]++
			for _, r := range f.Repairs {
				if bad := f.Members[0].Business.ID[0] == 'u'; bad != (r.Result == ResultFailed) || bad && !strings.Contains(r.Error, "business.id") {
					t.Errorf("%q: %+v", f.Members[0].Business.ID, r)
				}
			}
		}
		if states[StateFailed] != 3 || states[StateRepaired] != 1 || states[StateClean] != 1 {
			t.Errorf("states %v", states)
		}
		if n := one(t, db, `SELECT count(*) FROM claims WHERE record = 'u'`); n != 2 {
			t.Errorf("another record was repaired: %d claims left", n)
		}
		if n := one(t, db, `SELECT count(*) FROM tierlock_findings WHERE chain LIKE '%u0000%'`); n != 1 {
			t.Errorf("%d findings with the chain escaped", n)
		}
		if st, r := j.Stats(), j.Report(); st.Stopped || r.Repairs[ResultFailed] != 3 {
			t.Errorf("%+v, %v", st, r.Repairs)
		}
	})
}
