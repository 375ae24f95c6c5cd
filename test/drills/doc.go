// Package drills REHEARSES outages on real servers and looks at what the business gets: who
// is served, on which tier, how soon it is over, and that nothing of it is wrong afterwards.
// Package faults injects single faults and looks at one call; here there is load, for long.
//
// Every drill has a small version that always runs, and its full length with TIERLOCK_SOAK,
// where the figures of docs/drills.md come from. Times are asserted with the time taken off
// in which this process did not get to run.
package drills
