//go:build nodemo

package demo

import (
	"context"
	"fmt"
	"io"
)

// Run says that this binary was built without the demo, and returns 1.
func Run(_ context.Context, _ []string, _, stderr io.Writer) int {
	fmt.Fprintln(stderr, "tierlock demo: this binary was built without it (build tag nodemo); build without the tag, or run the release binary")
	return 1
}
