package flink

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

var base = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

func key(t *testing.T, text string) tierlock.Key {
	t.Helper()
	k, err := tierlock.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// anyHold is a hold of any sort, on so many keys and in few milliseconds, so that every two
// meet in every way: equal times, touching ends, clocks that are off, seqs in any order.
func anyHold(t *testing.T, rng *rand.Rand, i, keys int) reconcile.Interval {
	ms := func(most int) time.Duration { return time.Duration(rng.IntN(most)) * time.Millisecond }
	iv := reconcile.Interval{
		Chain: "coupon", Key: key(t, fmt.Sprintf("biz:coupon:lock:k%d", rng.IntN(keys))), Holder: fmt.Sprintf("h%04d", rng.IntN(300)),
		Tier: pick(rng, tierlock.Shared, tierlock.Shared, tierlock.Optimistic, tierlock.Local, tierlock.Bypass), Store: pick(rng, "main", "main", "other", ""),
		Producer: pick(rng, "p0", "p1", "p2", "größe"), Epoch: uint64(1 + rng.IntN(2)), GrantedAt: base.Add(ms(3000)),
		TTL: pick(rng, 0, ms(200)), Error: pick(rng, 0, time.Microsecond, time.Millisecond, 40*time.Millisecond),
		Outcome: pick(rng, audit.Committed, audit.Committed, audit.RolledBack, audit.Unknown),
	}
	iv.Event = fmt.Sprintf("%s/%d/%d", iv.Producer, iv.Epoch, i)
	if rng.IntN(8) > 0 {
		iv.AcquireSeq = uint64(1 + rng.IntN(2000))
	}
	if rng.IntN(6) > 0 {
		iv.EndedAt, iv.How = iv.GrantedAt.Add(ms(60)), pick(rng, audit.Released, audit.Released, audit.Released, audit.Lost, audit.Expired, audit.Forced)
		if rng.IntN(8) > 0 {
			iv.EndSeq = iv.AcquireSeq + uint64(1+rng.IntN(300))
		}
	} else {
		iv.Outcome = ""
	}
	switch { // what settle makes of it
	case iv.EndedAt.IsZero():
		iv.Latest = iv.GrantedAt.Add(ms(500))
	case iv.How == audit.Lost || iv.How == audit.Expired:
		iv.Latest = iv.EndedAt.Add(iv.TTL)
	default:
		iv.Latest = iv.EndedAt
	}
	if iv.Tier == tierlock.Shared && rng.IntN(2) == 0 {
		iv.Token = tierlock.Token(iv.GrantedAt.Add(pick(rng, 0, 2*time.Second, -30*time.Hour)).UnixMicro())
	}
	if rng.IntN(2) == 0 {
		iv.Business = audit.Business{Type: "coupon", ID: pick(rng, "a", "b")}
		if rng.IntN(3) > 0 {
			n := int64(rng.IntN(3))
			iv.Business.Before = &n
		}
	}
	return iv
}

// line is a hold as Check.java reads it.
func line(iv *reconcile.Interval) string {
	us := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return strconv.FormatInt(at.UnixMicro(), 10)
	}
	token, before := "0", ""
	if iv.Token <= 1<<53 {
		token = fmt.Sprint(uint64(iv.Token))
	}
	if iv.Business.Before != nil {
		before = fmt.Sprint(*iv.Business.Before)
	}
	return strings.Join([]string{
		iv.Event, iv.Chain, iv.Key.String(), iv.Holder, iv.Tier.String(), iv.Store, token, iv.Producer, fmt.Sprint(iv.Epoch),
		fmt.Sprint(iv.AcquireSeq), fmt.Sprint(iv.EndSeq), us(iv.GrantedAt), us(iv.EndedAt), us(iv.Latest),
		fmt.Sprint(iv.TTL.Microseconds()), fmt.Sprint(iv.Error.Microseconds()), string(iv.How), string(iv.Outcome), iv.Business.Type, iv.Business.ID, before,
	}, "\t")
}

// told is a finding as Check.java writes it.
func told(f *reconcile.Finding) string {
	var causes, members []string
	for _, c := range f.Causes {
		causes = append(causes, string(c))
	}
	for i := range f.Members {
		members = append(members, f.Members[i].Event)
	}
	return strings.Join([]string{
		f.ID, f.Digest, fmt.Sprint(f.Pairs), fmt.Sprint(f.CertainPairs), string(f.State), fmt.Sprint(f.AtRiskPairs), fmt.Sprint(f.Depth), fmt.Sprint(f.Part), fmt.Sprint(f.Carried),
		fmt.Sprint(f.From.UnixMicro()), fmt.Sprint(f.To.UnixMicro()), strings.Join(causes, ","), strings.Join(members, ","),
	}, "\t")
}

// The Java half of the rule says what the Go half says, of every pair: same groups, ids,
// digests, counts, causes and parts.
func TestTheRuleIsTheSameInJava(t *testing.T) {
	servers.Need(t, "JDK")
	classes := compilePure(t)
	causes, parts, certain, harmless := map[reconcile.Cause]int{}, 0, 0, 0
	for seed, rule := range []reconcile.Rule{{}, {DefaultError: 5 * time.Millisecond, Group: 4}, {DefaultError: 20 * time.Millisecond}} {
		rng := rand.New(rand.NewPCG(uint64(seed), 32))
		var holds []reconcile.Interval
		var in bytes.Buffer
		for i := range 1500 {
			iv := anyHold(t, rng, i, []int{6, 6, 400}[seed])
			holds = append(holds, iv)
			if iv.Tier != tierlock.Optimistic || iv.Outcome == audit.Committed && !iv.EndedAt.IsZero() { // the script leaves the others out
				in.WriteString(line(&iv) + "\n")
			}
		}
		var want []string
		for _, f := range reconcile.Overlaps(rule, holds) {
			want = append(want, told(&f))
			for _, c := range f.Causes {
				causes[c]++
			}
			parts = max(parts, f.Part)
			if certain += f.CertainPairs; f.State == reconcile.StateHarmless {
				harmless++
			}
		}
		def, group := cmp.Or(rule.DefaultError, 500*time.Millisecond), cmp.Or(rule.Group, 10_000)
		cmd := exec.CommandContext(t.Context(), "java", "-XX:TieredStopAtLevel=1", "-cp", classes, "tierlock.flink.Check", "judge",
			fmt.Sprint(def.Microseconds()), fmt.Sprint(group))
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = &in, &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.Bytes())
		}
		got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		slices.Sort(got)
		slices.Sort(want)
		compare(t, got, want)
	}
	if len(causes) != 9 || parts < 3 || certain == 0 || harmless == 0 {
		t.Errorf("causes %v, %d parts, %d certain pairs, %d harmless: the holds do not try everything", causes, parts, certain, harmless)
	}
}

// compare tells the first lines that only one side has.
func compare(t *testing.T, got, want []string) {
	t.Helper()
	said := 0
	tell := func(side string, lines, others []string) {
		for _, l := range lines {
			if _, found := slices.BinarySearch(others, l); !found && said < 6 {
				said++
				t.Errorf("only %s: %s", side, l)
			}
		}
	}
	tell("in Flink's job", got, want)
	tell("in the Go job", want, got)
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%d findings in Flink's job, %d in the Go job", len(got), len(want))
	}
}
