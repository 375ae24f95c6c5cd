package switchctl

import "context"

// SetPause replaces the pause before a publisher looks whether its text stands, and returns
// what puts it back.
func SetPause(p func(context.Context) error) (restore func()) {
	was := pause
	pause = p
	return func() { pause = was }
}
