// Package incident TELLS what happened in one closed period: which requests were served
// below the shared tier, which holds overlapped and why, which business records were
// touched and what became of each, and whether the events are complete enough to say so.
//
// [Make] reads a closed source once, through the same job that reconcile runs, and returns
// a [Report]. A [Document] carries it from draft over review to signature, and says when a
// byte of it has changed since. The package opens nothing: sources, databases and keys are
// handed in.
package incident
