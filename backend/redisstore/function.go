package redisstore

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// libraryName is what Redis lists our functions under; loading replaces the whole.
	libraryName = "tierlock"
	// LibraryVersion orders the libraries of releases: an older one never replaces a newer
	// one unasked. It rises with each release whose bodies differ.
	LibraryVersion = 1
	// askAgain is after how long a server without our functions is asked for them again,
	// so that loading them needs no restart of anybody.
	askAgain = time.Minute
)

// libraryMark begins the description of each function, before the library's version.
const libraryMark = "tierlock library "

// operations are the scripts, by their names in the library.
var operations = []struct {
	name   string
	script *script
	flags  string
}{
	// Acquires need memory, so a full server refuses them before they start.
	{"acquire", &acquireScript, ""},
	{"pass", &passScript, ""},
	{"mint", &mintScript, ""},
	// Whoever holds a lock can keep it and give it back when memory is full.
	{"release", &releaseScript, "'allow-oom'"},
	{"renew", &renewScript, "'allow-oom'"},
	// Reads are answered by servers that refuse to write, too.
	{"lookup", &lookupScript, "'no-writes'"},
}

// functionOf is the name of a body as a function. It carries the start of the body's own
// hash, as EVALSHA carries the whole: so a process and the library that it calls always
// mean the same body, whichever release loaded it.
func functionOf(operation, sha string) string { return libraryName + "_" + operation + "_" + sha[:8] }

// Library is the source of the functions: the same bodies that EVALSHA runs.
func Library() string {
	var b strings.Builder
	b.WriteString("#!lua name=" + libraryName + "\n")
	for _, o := range operations {
		b.WriteString("\nredis.register_function{\n" +
			"  function_name = '" + o.script.function + "',\n" +
			"  description = '" + libraryMark + strconv.Itoa(LibraryVersion) + "',\n" +
			"  flags = {" + o.flags + "},\n" +
			"  callback = function(KEYS, ARGV)\n" + o.script.source + "  end,\n}\n")
	}
	return b.String()
}

// functions is whether a node's questions are calls of functions.
type functions struct {
	wanted bool // these three never change
	addr   string
	log    *slog.Logger
	away   atomic.Int64 // Unix nanoseconds till when the server's lack of them is believed; 0: it has them
}

// now is f when functions are to be called, else nil.
func (f *functions) now() *functions {
	if !f.wanted {
		return nil
	}
	if away := f.away.Load(); away != 0 && time.Now().UnixNano() < away {
		return nil
	}
	return f
}

// unknown tells whether a call that ended with err says that the server does not have the
// function. Then nothing has happened, scripts are used for a while, and the log says so
// once.
func (f *functions) unknown(ctx context.Context, err error) bool {
	if err == nil || err.Error() != "ERR Function not found" {
		if err == nil && f.away.Load() != 0 {
			f.away.Store(0)
		}
		return false
	}
	if f.away.Swap(time.Now().Add(askAgain).UnixNano()) == 0 {
		f.log.WarnContext(ctx, "redis lacks the functions of this release, scripts are used instead: run tierlock functions load", slog.String("addr", f.addr))
	}
	return true
}
