// Package reconcile REPAIRS: it reads the event stream, finds holds of one key that
// overlapped, keeps each group of them as a [Finding], and has a business hook check and
// repair, under the real lock, what went wrong.
//
// [Overlaps] is the rule, pure and without a clock. [Job] is the consumer around it: it
// waits until nothing that matters can still arrive, stores findings, commits, repairs.
// Where events come from is a [Source]; Kafka is in kafkasource only. The package decides
// no tier, takes no lock but for a repair (see [Locker]), and never changes what an event
// says: raw times are kept and the verdict stands beside them.
package reconcile
