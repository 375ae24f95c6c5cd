package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrNewerLibrary says that a server has the functions of a newer release.
var ErrNewerLibrary = errors.New("the server has the functions of a newer release")

// LibraryState is what one master has of our functions.
type LibraryState struct {
	Addr      string
	Version   int      // of the library that it has; 0: none
	Functions []string // their names, sorted
	Current   bool     // they are those of this release, all of them
	Err       error    // why nothing is known, or nothing was done
}

// Libraries tells what each master has. A master that cannot be asked has an Err; the
// error itself is for what concerns all of them.
func (s *Store) Libraries(ctx context.Context) ([]LibraryState, error) {
	return s.eachMaster(ctx, func(context.Context, *node, LibraryState) error { return nil })
}

// LoadLibrary puts the functions of this release on each master that does not have them,
// in place of whatever is there: processes of another release go on with scripts. A newer
// library is left alone, with [ErrNewerLibrary], unless force says otherwise.
func (s *Store) LoadLibrary(ctx context.Context, force bool) ([]LibraryState, error) {
	return s.eachMaster(ctx, func(ctx context.Context, n *node, has LibraryState) error {
		switch {
		case has.Current:
			return nil
		case has.Version > LibraryVersion && !force:
			return fmt.Errorf("%w: version %d, this is %d", ErrNewerLibrary, has.Version, LibraryVersion)
		}
		return n.control.FunctionLoadReplace(ctx, Library()).Err()
	})
}

// RemoveLibrary takes our functions from each master: everybody goes on with scripts.
func (s *Store) RemoveLibrary(ctx context.Context) ([]LibraryState, error) {
	return s.eachMaster(ctx, func(ctx context.Context, n *node, has LibraryState) error {
		if has.Version == 0 && len(has.Functions) == 0 {
			return nil
		}
		return n.control.FunctionDelete(ctx, libraryName).Err()
	})
}

// eachMaster changes all masters and tells what each has then.
func (s *Store) eachMaster(ctx context.Context, change func(context.Context, *node, LibraryState) error) ([]LibraryState, error) {
	q, err := s.question(ctx)
	if err != nil {
		return nil, err
	}
	defer q.end()
	masters, err := s.masters(q.context())
	if err != nil {
		return nil, err
	}
	return each(masters, func(n *node) LibraryState { return n.change(q.context(), change) }), nil
}

// change tells what the node has after change, or what kept it from being told or made.
func (n *node) change(ctx context.Context, change func(context.Context, *node, LibraryState) error) LibraryState {
	has := n.library(ctx)
	if has.Err != nil {
		return has
	}
	if has.Err = change(ctx, n, has); has.Err != nil {
		return has
	}
	return n.library(ctx)
}

// library asks for what the node has.
func (n *node) library(ctx context.Context) LibraryState {
	has := LibraryState{Addr: n.addr}
	libraries, err := n.control.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: libraryName}).Result()
	if err != nil {
		has.Err = err
		return has
	}
	for _, lib := range libraries {
		for _, f := range lib.Functions {
			has.Functions = append(has.Functions, f.Name)
			if v, ok := strings.CutPrefix(f.Description, libraryMark); ok {
				version, _ := strconv.Atoi(v) // what is no number is no version of ours
				has.Version = max(has.Version, version)
			}
		}
	}
	slices.Sort(has.Functions)
	has.Current = has.Version == LibraryVersion && slices.Equal(has.Functions, functionNames())
	return has
}

// functionNames are those of this release, sorted.
func functionNames() []string {
	var names []string
	for _, o := range operations {
		names = append(names, o.script.function)
	}
	slices.Sort(names)
	return names
}
