// Package localfallback STANDS IN for a store while none can be used: [Table] is a bounded
// lock inside this process, [Bypass] grants everything and excludes nobody. Both are
// backends and pass the same suite as the stores.
//
// Neither decides when it is used, neither mints a fencing token (two processes could mint
// the same one), and nothing here outlives the process.
package localfallback
