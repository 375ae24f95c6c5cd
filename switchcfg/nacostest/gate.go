package nacostest

import "sync"

// gate counts who is inside, so that a server that ends can wait for its handlers: grpc
// tells them to end and does not wait.
type gate struct {
	mu    sync.Mutex
	n     int // guarded by mu
	empty sync.Cond
}

func (g *gate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		g.empty.Broadcast()
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.n > 0 {
		g.empty.Wait()
	}
}
