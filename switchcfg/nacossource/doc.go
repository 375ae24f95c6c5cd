// Package nacossource COMMANDS from Nacos: it fetches the switch document by the vendor's
// SDK, which nobody else imports, and keeps what that SDK does in trouble away from the
// process: stale answers, calls that hang, a spinning listener, log floods, log.Fatal.
//
// It does not read the document, keeps no copy of it and never publishes one.
package nacossource
