// Package signals REHEARSES: it records what a gateway's health machines saw, and replays it
// through the same pure machines under another policy, to tell what would have happened.
// docs/simulate.md is the format of a recording. It takes no lock and asks no store.
package signals
