package faults

import (
	"sync"

	"github.com/tierlock/tierlock/audit/spool"
)

// brake is the system's own disk, on which each fsync waits while it is on.
type brake struct {
	spool.OS

	mu sync.Mutex
	on chan struct{} // closed when it is off again; nil: it is off; guarded by mu
}

type braked struct {
	spool.File
	by *brake
}

func (b *brake) Create(name string) (spool.File, error) {
	f, err := b.OS.Create(name)
	return braked{f, b}, err
}

func (f braked) Sync() error {
	f.by.mu.Lock()
	on := f.by.on
	f.by.mu.Unlock()
	if on != nil {
		<-on
	}
	return f.File.Sync()
}

// hold puts it on; release, which may be called again, ends it.
func (b *brake) hold() (release func()) {
	on := make(chan struct{})
	b.mu.Lock()
	b.on = on
	b.mu.Unlock()
	return sync.OnceFunc(func() {
		b.mu.Lock()
		b.on = nil
		b.mu.Unlock()
		close(on)
	})
}
