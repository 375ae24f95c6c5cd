package reconcile

import (
	"strconv"
	"time"

	"github.com/tierlock/tierlock/audit"
)

// feeds are the producers as one partition hears them: what each has sent, what of it is
// missing, and up to when it has told everything.
type feeds struct {
	partition int
	by        map[string]*feed
	reported  map[string]Finding   // gaps and silences told already, by id
	missed    map[seqOf]bool       // seqs among them
	holes     map[string]hole      // gaps among them, by id
	away      map[string]Finding   // silences among them, by producer
	back      map[string]bool      // producers that have told what was missing of them
	out       []Finding            // and to be told
	moved     bool                 // gone may answer otherwise than it did
	before    map[string]time.Time // when producers were heard before the partition was read again
	astray    Finding              // events that lie in another partition than their key's; no Gap: none
}

// seqOf is one seq of a producer.
type seqOf struct {
	producer string
	seq      uint64
}

// feed is one producer.
type feed struct {
	producer string
	epoch    uint64
	mark     time.Time // all that happened before has been sent
	heard    time.Time // when its last record was appended
	offset   int64     // of its last record
	closed   bool      // its epoch is sealed
	silent   bool

	logs    map[uint64]*log // by epoch
	awaited map[uint64]hole // seqs that others name as their prev, and between when they were written
}

func newFeeds(partition int) feeds {
	return feeds{
		partition: partition, by: map[string]*feed{}, reported: map[string]Finding{}, missed: map[seqOf]bool{},
		holes: map[string]hole{}, away: map[string]Finding{}, back: map[string]bool{},
	}
}

// hear takes note of one event and tells whether it is the first of its id here.
func (fs *feeds) hear(ev *audit.Event, r *Record, now time.Time) (fresh bool) {
	f, known := fs.by[ev.Producer]
	if !known {
		f = &feed{producer: ev.Producer, heard: fs.before[ev.Producer], logs: map[uint64]*log{}, awaited: map[uint64]hole{}}
		fs.by[ev.Producer] = f
	}
	f.offset = r.Offset
	l := f.logs[ev.Epoch]
	if l == nil {
		l = fs.begin(f, ev)
	}
	if id := (seqOf{f.producer, ev.Seq}); l.has(ev.Seq) && !fs.missed[id] {
		return false
	}
	// Of the first event that is read of a producer nobody can tell whether the one before
	// is missing, unless the partition is read from its beginning.
	if (known || r.Offset == 0) && ev.Prev != 0 && !f.has(ev.Prev) {
		f.awaited[ev.Prev] = hole{f.producer, f.mark, ev.Time()}
	}
	l.add(ev.Seq)
	if _, was := f.awaited[ev.Seq]; was {
		delete(f.awaited, ev.Seq)
		fs.back[f.producer] = true
	}
	if id := (seqOf{f.producer, ev.Seq}); len(fs.missed) > 0 && fs.missed[id] {
		delete(fs.missed, id)
		fs.withdraw(fs.sequenceID(f, ev.Seq)) // it has come after all
	}
	fs.alive(f, l, ev, r, now)
	return true
}

// begin opens the log of an epoch. A later epoch that does not go on with the seqs of those
// before means that the folder was lost, and with it whatever had not been sent.
func (fs *feeds) begin(f *feed, ev *audit.Event) *log {
	for number, old := range f.logs {
		if number < ev.Epoch && ev.Seq <= old.highest {
			fs.gap(Finding{
				ID: idOf("folder", f.producer, strconv.FormatUint(ev.Epoch, 10)), Kind: KindGap, State: StateOpen, From: ev.Time(), To: ev.Time(),
				Gap: &Gap{Partition: fs.partition, Producer: f.producer, Epoch: number, Cause: "folder_lost", From: old.highest + 1, At: ev.Time()},
			}, old.sign)
			break
		}
	}
	l := &log{}
	f.logs[ev.Epoch] = l
	return l
}

func (f *feed) has(seq uint64) bool {
	for _, l := range f.logs {
		if l.has(seq) {
			return true
		}
	}
	return false
}

// alive moves the producer's signs of life on.
func (fs *feeds) alive(f *feed, l *log, ev *audit.Event, r *Record, now time.Time) {
	heard := now
	if !r.Time.IsZero() && r.Time.Before(now) {
		heard = r.Time
	}
	if heard.After(f.heard) {
		f.heard = heard
	}
	if ev.Time().After(l.sign) {
		l.sign = ev.Time()
	}
	if ev.Epoch > f.epoch {
		f.epoch, f.closed, fs.moved = ev.Epoch, false, true
	}
	returned := f.silent
	if returned {
		f.silent, fs.moved = false, true
	}
	// Else it may be what it had told before, read again.
	if gone, was := fs.away[f.producer]; was && (returned || ev.Time().After(gone.Gap.At)) {
		delete(fs.away, f.producer)
		fs.back[f.producer] = true
		fs.withdraw(gone.ID)
	}
	switch {
	case ev.Type == audit.TypeSeal && ev.Sealed == f.epoch:
		f.closed, fs.moved = true, true
	case ev.Type == audit.TypeGap:
		fs.told(f, ev)
	}
	if mark := sane(ev.Time(), now); ev.Type.Marker() && mark.After(f.mark) || f.mark.IsZero() {
		f.mark = mark
	}
}

// heard is when each producer was heard last.
func (fs *feeds) heard() map[string]time.Time {
	all := make(map[string]time.Time, len(fs.by))
	for name, f := range fs.by {
		all[name] = f.heard
	}
	return all
}

// sane is up to when a producer's word is taken. A clock that was ahead for a moment must
// not carry the horizon along: when it is right again, all that its producer tells would
// be late, and have the partition read again for as long as the clock had been ahead.
func sane(at, now time.Time) time.Time {
	if at.Sub(now) > ahead {
		return now
	}
	return at
}

// ahead is how far a producer's clock may be before ours and still be believed.
const ahead = time.Minute

// gone tells whether an epoch is over, and when it gave its last sign of life.
func (fs *feeds) gone(producer string, number uint64) (time.Time, bool) {
	f := fs.by[producer]
	if f == nil || number == f.epoch && !f.closed && !f.silent {
		return time.Time{}, false
	}
	return f.sign(number), true
}

// sign is an epoch's last sign of life; zero: none was seen.
func (f *feed) sign(number uint64) time.Time {
	if l := f.logs[number]; l != nil {
		return l.sign
	}
	return time.Time{}
}

// low is up to when every producer has told everything; this process's clock where there
// is none to wait for. It is unknown before anything has been heard.
func (fs *feeds) low(now time.Time, caught bool) (low time.Time, ok bool) {
	for _, f := range fs.by {
		if f.closed || f.silent {
			continue
		}
		if !ok || f.mark.Before(low) {
			low, ok = f.mark, true
		}
	}
	if !ok && caught {
		return now, true
	}
	return low, ok
}

// anchor is the lowest offset that a restart must not begin after, so that it hears each
// live producer once and misses no gap.
func (fs *feeds) anchor(next int64) int64 {
	for _, f := range fs.by {
		if !f.closed && !f.silent {
			next = min(next, f.offset)
		}
	}
	return next
}

// silence names producers that have sent nothing for idle; nothing waits for them then.
func (fs *feeds) silence(now time.Time, idle time.Duration) {
	for _, f := range fs.by {
		if f.closed || f.silent || now.Sub(f.heard) < idle {
			continue
		}
		f.silent, fs.moved = true, true
		sign := f.sign(f.epoch)
		fs.leave(Finding{
			ID: silentID(f), Revision: sign.UnixMicro(), Digest: stamp(sign), Kind: KindSilent, State: StateOpen, From: sign, To: now,
			Gap: &Gap{Partition: fs.partition, Producer: f.producer, Epoch: f.epoch, Cause: "silent", At: sign},
		})
	}
}

// miss reports seqs that were named before the horizon and have not come.
func (fs *feeds) miss(horizon time.Time) {
	for _, f := range fs.by {
		for seq, at := range f.awaited {
			if at.to.After(horizon) {
				continue
			}
			delete(f.awaited, seq)
			fs.missed[seqOf{f.producer, seq}] = true
			fs.gap(Finding{
				ID: fs.sequenceID(f, seq), Kind: KindGap, State: StateOpen, From: at.to, To: at.to,
				Gap: &Gap{Partition: fs.partition, Producer: f.producer, Epoch: f.epoch, Cause: causeSequence, From: seq, To: seq, At: at.to},
			}, at.from)
		}
	}
}

// told reports a gap that the producer itself knows of.
func (fs *feeds) told(f *feed, ev *audit.Event) {
	fs.gap(Finding{
		ID: idOf("gap", ev.EventID()), Kind: KindGap, State: StateOpen, From: ev.At, To: ev.At,
		Gap: &Gap{
			Partition: fs.partition, Producer: f.producer, Epoch: ev.Epoch, Cause: string(ev.Cause),
			From: ev.From, To: ev.To, Count: ev.Count, At: ev.At,
		},
	}, f.mark)
}

// lost reports offsets that nobody can read any more: retention took them unread, or the
// stream was cut.
func (fs *feeds) lost(l Loss, horizon, now time.Time) {
	cause := "retention"
	if l.Shrunk {
		cause = "shrunk"
	}
	fs.gap(Finding{
		ID:   idOf(cause, strconv.Itoa(l.Partition), strconv.FormatInt(l.From, 10), strconv.FormatInt(l.To, 10)),
		Kind: KindGap, State: StateOpen, From: now, To: now,
		Gap: &Gap{Partition: l.Partition, Cause: cause, Count: uint64(l.To - l.From), At: now},
	}, horizon)
}

// place notices a hold's event that lies in another partition than its key's, of width in
// all: the topic got more partitions, or a producer reckons otherwise. Holds of that key
// meet in no window then, and what overlapped of them is not found. It is told once, and
// again whenever twice as many have come.
func (fs *feeds) place(ev *audit.Event, width int) {
	if width == 0 || audit.PartitionOf(ev.Key.String(), width) == fs.partition {
		return
	}
	f := &fs.astray
	if f.Gap == nil {
		*f = Finding{
			ID: idOf("partitions", strconv.Itoa(fs.partition), strconv.Itoa(width)), Kind: KindGap, State: StateOpen, From: ev.Time(), To: ev.Time(),
			Gap: &Gap{Partition: fs.partition, Cause: causePartitions},
		}
	}
	if ev.Time().Before(f.From) {
		f.From = ev.Time()
	}
	if ev.Time().After(f.To) {
		f.To = ev.Time()
	}
	gap := *f.Gap // the one that was told is not ours any more
	gap.Producer, gap.At, gap.Count = ev.Producer, ev.Time(), gap.Count+1
	f.Gap = &gap
	if gap.Count&(gap.Count-1) == 0 {
		fs.out = append(fs.out, *f)
	}
}

// settle lets go of what tells the latest seqs of an epoch apart, once nothing of it is on
// its way any more: a producer that starts often has many epochs.
func (fs *feeds) settle(horizon time.Time) {
	for _, f := range fs.by {
		for _, l := range f.logs {
			if l.sign.Before(horizon.Add(-settled)) {
				l.settle()
			}
		}
	}
}

// settled is how long after its last sign of life an epoch's last repeats have come.
const settled = time.Hour

// gap reports events that are missing: they were written after from.
func (fs *feeds) gap(f Finding, from time.Time) {
	fs.holes[f.ID] = hole{f.Gap.Producer, from, f.To}
	if !from.IsZero() && from.Before(f.From) {
		f.From = from
	}
	fs.report(f)
}

// leave reports a producer that has fallen silent.
func (fs *feeds) leave(f Finding) {
	fs.away[f.Gap.Producer] = f
	fs.report(f)
}

func (fs *feeds) report(f Finding) {
	if was, told := fs.reported[f.ID]; told && was.State != StateWithdrawn {
		return
	}
	fs.reported[f.ID] = f
	fs.out = append(fs.out, f)
}

func (fs *feeds) withdraw(id string) {
	f, told := fs.reported[id]
	if !told || f.State == StateWithdrawn {
		return
	}
	f.State = StateWithdrawn
	fs.reported[id] = f
	if _, was := fs.holes[id]; was {
		delete(fs.holes, id)
		fs.back[f.Gap.Producer] = true
	}
	fs.out = append(fs.out, f)
}

// Causes of gaps.
const (
	causeSequence   = "sequence"   // a seq that another event names as its prev has not come
	causePartitions = "partitions" // see place
)

func silentID(f *feed) string { return idOf("silent", f.producer, strconv.FormatUint(f.epoch, 10)) }

func (fs *feeds) sequenceID(f *feed, seq uint64) string {
	return idOf("sequence", strconv.Itoa(fs.partition), f.producer, strconv.FormatUint(seq, 10))
}
