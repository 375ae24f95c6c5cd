package reconcile

import (
	"context"
	"time"
)

// Record is one message as it came, before anybody has looked into it.
type Record struct {
	Partition int
	Offset    int64
	Time      time.Time // when it was appended, by the stream's clock; zero: unknown
	Key       []byte
	Value     []byte
	// Replayed tells that it came out of the dead letters, however long ago its producer
	// has written it: it is not taken for a repetition of what was read then.
	Replayed bool
}

// Batch is what a [Source] hands out at once. Revoked and Assigned come before Records.
type Batch struct {
	Revoked  []int  // partitions that are not ours any more; what is known of them is dropped
	Assigned []Mark // partitions that are ours now, as they were committed

	Records []Record // of one partition, in order
	// CaughtUp are partitions with nothing more to read at AsOf (zero: now). A source repeats
	// them, about once a second: only then does silence prove that a producer is silent, and
	// not that its records wait unread.
	CaughtUp []int
	AsOf     time.Time

	// Lost are records that the stream dropped before they were read.
	Lost []Loss

	// Width is how many partitions the stream has; zero: not told. With it the job notices
	// events that lie in another partition than that of their key.
	Width int
}

// Mark is where a restart begins, and what it has to know of what went before. See
// window.go for why these three are enough.
type Mark struct {
	Partition int
	Offset    int64     // the next record to read
	Judged    time.Time // groups that began before are judged already; zero: none is
	Read      int64     // records below were read before, so they are not late
}

// Loss is a range of offsets whose records nobody can read any more: From ≤ offset < To.
// Retention took them away unread, or the stream has become shorter than it was.
type Loss struct {
	Partition int
	From, To  int64
	// Shrunk says that the stream ends at From now: an unclean election cut it, or the topic
	// was made anew. Offsets from From on are given out once more, so all of the partition is
	// handed out again from its oldest record, as after a Rewind.
	Shrunk bool
}

// Source is one member of a consumer group. A [Job] calls it from one goroutine.
type Source interface {
	// Next blocks until there is a Batch or ctx ends; a ctx that ends loses no record. io.EOF
	// says that nothing will ever come again; any other error is for good too: what can be
	// tried again is tried again inside.
	Next(ctx context.Context) (Batch, error)
	// Commit says that a restart may begin at m. Judged and Read are kept with the offset
	// and come back with the assignment. A partition that is not ours any more is left
	// alone, without an error.
	Commit(ctx context.Context, m Mark) error
	// Rewind makes Next hand out partition again from the oldest record there is. What was
	// committed stays committed.
	Rewind(ctx context.Context, partition int) error
}

// Worker is a [Source] that takes a member for stuck which asks for nothing. At the end of a
// stream, where nothing is asked for, a [Job] tells it after each step that it is at work.
type Worker interface {
	// Working is called from the goroutine of Next and does not block.
	Working()
}
