// Package spool KEEPS byte records on one disk: segments, checksums, group commit. What
// Append acknowledged is found again after any crash while the disk survives. It knows no
// event and imports only the standard library, so its crash tests need nothing else. The
// format is told in docs/spool-format.md.
package spool
