package switchctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacossource"
)

// Place is where a document lives and can be changed.
type Place interface {
	switchcfg.Source
	// Publish replaces was, the text that was fetched, by text. ErrChanged: somebody else
	// has published meanwhile, and nothing was done.
	Publish(ctx context.Context, was, text []byte) error
	// Stands tells, a second or two after Publish, whether what it published stands:
	// ErrOvertaken, ErrUnseen, or ErrUnlooked with its cause.
	Stands(ctx context.Context, was, text []byte) error
	// History returns what Keep has kept, oldest first.
	History(ctx context.Context) ([]Entry, error)
	// Keep adds one entry.
	Keep(ctx context.Context, e Entry) error
}

// ErrChanged tells that the document is not the one any more that the change was made for.
var ErrChanged = errors.New("somebody else has published meanwhile: look again, and repeat")

// ErrOvertaken tells that the document was published, and that one of somebody else who
// published in the same instant stands in its place. Instances may have followed either.
var ErrOvertaken = errors.New("published, but somebody else has in the same instant, and theirs stands: look again, and repeat")

// ErrUnseen tells that the document was published, and that two looks have found none, or an
// older one.
var ErrUnseen = errors.New("published, but two seconds later it does not stand there: look again, and repeat")

// ErrUnlooked tells that the document was published, and that it was not found out whether it
// stands. That is no failure.
var ErrUnlooked = errors.New("published, and not looked at whether it stands")

// readBack is when it is looked whether what was published stands, where nobody compares for
// us: whoever has looked before we wrote has long written then.
const readBack = time.Second

// stands looks after a while whether what stands at the place is text, or newer. A place that
// shows an older document, or none, may lag behind: it is asked once more.
func stands(ctx context.Context, at switchcfg.Source, text []byte) error {
	ours, err := switchcfg.Parse(text)
	if err != nil {
		return nil //nolint:nilerr // no document of ours: there is nothing to compare
	}
	for range 2 {
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrUnlooked, err)
		}
		now, err := at.Fetch(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnlooked, err)
		}
		if len(bytes.TrimSpace(now)) == 0 {
			continue
		}
		theirs, err := switchcfg.Parse(now)
		switch {
		case err != nil, theirs.Version == ours.Version && theirs.Hash() != ours.Hash():
			return ErrOvertaken
		case theirs.Version >= ours.Version:
			return nil
		}
	}
	return ErrUnseen
}

// pause waits for readBack.
func pause(ctx context.Context) error {
	timer := time.NewTimer(readBack)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// File is a Place in a file; its history is a file beside it, path + ".history". Of two
// people who publish in the same instant the later text stands, and Stands tells the other one:
// ErrOvertaken.
type File string

// Fetch implements [switchcfg.Source]; a file that is not there is no document.
func (f File) Fetch(ctx context.Context) ([]byte, error) {
	text, err := switchcfg.File(f).Fetch(ctx)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Watch implements [switchcfg.Pusher].
func (f File) Watch(ctx context.Context, wake func()) error {
	return switchcfg.File(f).Watch(ctx, wake)
}

// Publish implements [Place].
func (f File) Publish(ctx context.Context, was, text []byte) error {
	now, err := f.Fetch(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, was) {
		return ErrChanged
	}
	d, err := switchcfg.Parse(text)
	if err != nil {
		return err
	}
	return switchcfg.WriteFile(string(f), d)
}

// Stands implements [Place]: nobody compares in a file.
func (f File) Stands(ctx context.Context, _, text []byte) error { return stands(ctx, f, text) }

func (f File) historyPath() string { return string(f) + ".history" }

// History implements [Place].
func (f File) History(context.Context) ([]Entry, error) {
	text, err := os.ReadFile(f.historyPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readEntries(text)
}

// Keep implements [Place].
func (f File) Keep(_ context.Context, e Entry) (err error) {
	line, err := e.line()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.historyPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(line)
	return err
}

// Nacos is a Place in Nacos; its history is a configuration beside it, data id + ".history",
// with the last 50 entries.
type Nacos struct {
	Document, Past *nacossource.Source
}

// Fetch implements [switchcfg.Source].
func (n Nacos) Fetch(ctx context.Context) ([]byte, error) { return n.Document.Fetch(ctx) }

// Watch implements [switchcfg.Pusher].
func (n Nacos) Watch(ctx context.Context, wake func()) error { return n.Document.Watch(ctx, wake) }

// Publish implements [Place]. A server that compares gives one of two people who publish at
// once ErrChanged. Where nothing stands it has nothing to compare with, and some never do
// (rnacos 0.8.8): then the later one wins, and Stands tells the other one.
func (n Nacos) Publish(ctx context.Context, was, text []byte) error {
	return publish(ctx, n.Document, was, text)
}

// Stands implements [Place]. No answer tells whether the server has compared. If it has, an
// older document, or none, is of a node that is behind, or of somebody who came later.
func (n Nacos) Stands(ctx context.Context, was, text []byte) error {
	err := stands(ctx, n.Document, text)
	if len(was) > 0 && errors.Is(err, ErrUnseen) {
		return nil
	}
	return err
}

// publish also looks itself, for a server that takes no notice of the comparison.
func publish(ctx context.Context, at *nacossource.Source, was, text []byte) error {
	now, err := at.Fetch(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, was) {
		return ErrChanged
	}
	return at.Publish(ctx, was, text)
}

// keepMost bounds the history in Nacos, which holds a configuration in one piece.
const keepMost = 50

// History implements [Place].
func (n Nacos) History(ctx context.Context) ([]Entry, error) {
	text, err := n.Past.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	return readEntries(text)
}

// Keep implements [Place].
func (n Nacos) Keep(ctx context.Context, e Entry) error {
	was, err := n.Past.Fetch(ctx)
	if err != nil {
		return err
	}
	line, err := e.line()
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(bytes.TrimSpace(was), []byte("\n"))
	if len(lines) >= keepMost {
		lines = lines[len(lines)-keepMost+1:]
	}
	text := bytes.TrimSpace(bytes.Join(lines, nil))
	if len(text) > 0 {
		text = append(text, '\n')
	}
	return publish(ctx, n.Past, was, append(text, line...))
}
