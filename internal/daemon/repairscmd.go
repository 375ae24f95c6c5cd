package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile"
)

const repairsUsage = `repairs -c FILE ls|show KEY|approve KEY|reject KEY [flags]

ls lists the repairs that wait for people, or for the job after people have answered; with
--all also what is settled. show tells all of one: the losing hold, how much is wrong, who has
said what, every round of it. approve and reject write a person's answer down; the job with
--apply finds it within a second or two. A yes is for the amount that is asked for and expires;
saying it again changes nothing. KEY is the repair's key, as ls prints it.

`

// mostListed bounds one list.
const mostListed = 10_000

// repairsOptions are the flags of repairs.
type repairsOptions struct {
	fs     *flag.FlagSet
	format *string
	path   string
	all    bool
	by     string
	reason string
	amount int64
	key    string
}

func (p Process) repairsFlags() *repairsOptions {
	o := &repairsOptions{fs: p.flags("repairs", repairsUsage)}
	o.fs.StringVar(&o.path, "c", "", "the configuration `file` of the reconcile job")
	o.fs.BoolVar(&o.all, "all", false, "ls: also what is settled")
	o.fs.StringVar(&o.by, "by", "", "approve, reject: the `name` of who answers")
	o.fs.Int64Var(&o.amount, "amount", 0, "approve: only if so `much` is asked for; default whatever is")
	o.fs.StringVar(&o.reason, "reason", "", "reject: why, a `sentence`")
	o.format = output(o.fs)
	return o
}

// Repairs shows what waits for people, and takes their answers.
func (p Process) Repairs(ctx context.Context, args []string) int {
	o := p.repairsFlags()
	var words []string
	for len(args) > 0 { // flags may stand before, between and after the words
		if code, ok := p.parse(o.fs, args, len(args)); !ok {
			return code
		}
		if args = o.fs.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	verbs := map[string]func(context.Context, *reconcile.ApprovalsTable, *repairsOptions) error{
		"ls": p.listRepairs, "show": p.showRepair, "approve": p.approveRepair, "reject": p.rejectRepair,
	}
	if len(words) == 0 || verbs[words[0]] == nil {
		return p.misused(o.fs, "want ls, show, approve or reject")
	}
	if err := o.take(words[0], words[1:]); err != nil {
		return p.fail(*o.format, err)
	}
	cfg, code, ok := p.load(o.fs, o.path, *o.format)
	if !ok {
		return code
	}
	d := cfg.Reconcile.Database
	if d == nil {
		return p.fail(*o.format, tierlock.Invalid("reconcile.database", "", "is required: people's answers are kept there"))
	}
	db, err := d.open()
	if err != nil {
		return p.fail(*o.format, prefixed("reconcile.database.", err))
	}
	defer db.Close() //nolint:errcheck // every statement has been answered
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	table, err := reconcile.SQLApprovals(db, dialect)
	if err == nil {
		err = verbs[words[0]](ctx, table, o)
	}
	if err != nil {
		return p.fail(*o.format, err)
	}
	return ExitOK
}

// take checks the words and flags of one verb.
func (o *repairsOptions) take(verb string, words []string) error {
	var f faults
	if verb == "ls" {
		if len(words) > 0 {
			f.add("ls", words[0], "takes no key")
		}
		return errors.Join(f.errs...)
	}
	if len(words) != 1 {
		f.add("KEY", strings.Join(words, " "), "want the key of one repair")
	} else {
		o.key = words[0]
	}
	if verb == "approve" || verb == "reject" {
		by, err := reconcile.Name("--by", o.by)
		f.under("", err)
		o.by = by
	}
	if verb == "approve" && o.amount < 0 {
		f.add("--amount", strconv.FormatInt(o.amount, 10), "want above 0")
	}
	if verb == "reject" && strings.TrimSpace(o.reason) == "" {
		f.add("--reason", o.reason, "want a sentence: it stands in the finding")
	}
	return errors.Join(f.errs...)
}

func (p Process) listRepairs(ctx context.Context, t *reconcile.ApprovalsTable, o *repairsOptions) error {
	all, err := t.List(ctx, o.all, mostListed)
	if err != nil {
		return err
	}
	now := time.Now()
	if *o.format == "json" {
		views := make([]repairView, 0, len(all))
		for i := range all {
			views = append(views, viewOf(&all[i], now))
		}
		return encoder(p.Stdout).Encode(views)
	}
	for i := range all {
		fmt.Fprintln(p.Stdout, lineOf(&all[i], now))
	}
	fmt.Fprintf(p.Stdout, "%d %s\n", len(all), plural(len(all), "repair"))
	return nil
}

func (p Process) showRepair(ctx context.Context, t *reconcile.ApprovalsTable, o *repairsOptions) error {
	rounds, err := t.Rounds(ctx, o.key)
	if err != nil {
		return err
	}
	if len(rounds) == 0 {
		return o.told(reconcile.Approval{}, reconcile.ErrNoRequest)
	}
	now := time.Now()
	if *o.format == "json" {
		views := make([]repairView, 0, len(rounds))
		for i := range rounds {
			views = append(views, viewOf(&rounds[i], now))
		}
		return encoder(p.Stdout).Encode(views)
	}
	last := &rounds[len(rounds)-1]
	c, m := &last.Case, &last.Case.Loser
	fmt.Fprintf(p.Stdout, "repair   %s, %s %s %s\nfinding  %s, %s, causes %s\nhold     %s, %s to %s on %s at %s\n", c.ID, c.Action, c.Business.Type, c.Business.ID,
		c.Finding.ID, certainty(&c.Finding), joined(c.Finding.Causes), m.Key, stamp(m.GrantedAt), stamp(m.EndedAt), m.Tier, m.Producer)
	for i := range rounds {
		fmt.Fprintf(p.Stdout, "round %-2d %s\n", rounds[i].Round, lineOf(&rounds[i], now))
		for _, v := range rounds[i].Votes {
			fmt.Fprintf(p.Stdout, "         %s  yes by %s, counts until %s\n", stamp(v.At), v.By, stamp(v.At.Add(rounds[i].Valid)))
		}
		if rounds[i].RejectedBy != "" {
			fmt.Fprintf(p.Stdout, "         %s  no by %s: %s\n", stamp(rounds[i].RejectedAt), rounds[i].RejectedBy, rounds[i].Reason)
		}
	}
	return nil
}

func (p Process) approveRepair(ctx context.Context, t *reconcile.ApprovalsTable, o *repairsOptions) error {
	return p.answered(o)(t.Approve(ctx, o.key, o.by, o.amount))
}

func (p Process) rejectRepair(ctx context.Context, t *reconcile.ApprovalsTable, o *repairsOptions) error {
	return p.answered(o)(t.Reject(ctx, o.key, o.by, strings.TrimSpace(o.reason)))
}

// answered prints how a request stands after an answer.
func (p Process) answered(o *repairsOptions) func(reconcile.Approval, error) error {
	return func(a reconcile.Approval, err error) error {
		if err != nil {
			return o.told(a, err)
		}
		now := time.Now()
		p.tell(*o.format, lineOf(&a, now), viewOf(&a, now))
		return nil
	}
}

// told adds to why an answer was not taken what there is instead.
func (o *repairsOptions) told(a reconcile.Approval, err error) error {
	switch {
	case errors.Is(err, reconcile.ErrNoRequest):
		return fmt.Errorf("%w: %s: say the whole key as ls --all prints it", err, o.key)
	case a.Case.ID != "":
		return fmt.Errorf("%w: %s", err, lineOf(&a, time.Now()))
	}
	return err
}

// repairView is a request as JSON.
type repairView struct {
	Key       string           `json:"key"`
	Round     int              `json:"round"`
	Status    reconcile.Status `json:"status"`
	Type      string           `json:"type"`
	ID        string           `json:"id"`
	Action    string           `json:"action"`
	LockKey   tierlock.Key     `json:"lock_key"`
	Finding   string           `json:"finding"`
	Amount    int64            `json:"amount"`
	Approvers int              `json:"approvers"`
	Waits     string           `json:"waits,omitempty"`
	Votes     []reconcile.Vote `json:"votes"`
	ValidS    int64            `json:"valid_s"`
	AskedBy   string           `json:"asked_by,omitempty"`
	AskedAt   time.Time        `json:"asked_at"`
	Rejected  string           `json:"rejected_by,omitempty"`
	Reason    string           `json:"reason,omitempty"`
	Result    reconcile.Result `json:"result,omitempty"`
	DoneAt    time.Time        `json:"done_at,omitzero"`
}

func viewOf(a *reconcile.Approval, now time.Time) repairView {
	return repairView{
		Key: a.Case.ID, Round: a.Round, Status: a.Status(now), Type: a.Case.Business.Type, ID: a.Case.Business.ID, Action: a.Case.Action,
		LockKey: a.Case.Loser.Key, Finding: a.Case.Finding.ID, Amount: a.Amount, Approvers: a.Approvers, Waits: a.Waits(now),
		Votes: append([]reconcile.Vote{}, a.Votes...), ValidS: int64(a.Valid.Seconds()), AskedBy: a.AskedBy, AskedAt: a.AskedAt,
		Rejected: a.RejectedBy, Reason: a.Reason, Result: a.Result, DoneAt: a.DoneAt,
	}
}

// lineOf is a request on one line.
func lineOf(a *reconcile.Approval, now time.Time) string {
	line := fmt.Sprintf("%s  %-8s  %s %s %s  wrong %d  asked %s", a.Case.ID, a.Status(now), a.Case.Action, a.Case.Business.Type, a.Case.Business.ID,
		a.Amount, stamp(a.AskedAt))
	if a.AskedBy != "" {
		line += " by " + a.AskedBy
	}
	switch {
	case a.RejectedBy != "":
		line += "  by " + a.RejectedBy + ": " + a.Reason
	case a.Result != "":
		line += "  " + string(a.Result)
		if len(a.Votes) > 0 {
			line += " by " + joined(votersOf(a))
		}
	case a.Status(now) == reconcile.StatusApproved:
		line += "  by " + strings.Join(a.Yes(now), ", ")
	default:
		line += "  waits for " + a.Waits(now)
	}
	return line
}

// votersOf are all who said yes, also where that has expired since.
func votersOf(a *reconcile.Approval) []string {
	names := make([]string, len(a.Votes))
	for i, v := range a.Votes {
		names[i] = v.By
	}
	return names
}
