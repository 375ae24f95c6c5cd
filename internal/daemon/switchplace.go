package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacossource"
)

// switchTimeout bounds each question to the place of the document; Nacos takes up to
// 5 s for its first.
const switchTimeout = 10 * time.Second

// switchPlace is where the document of c can be read, and changed unless it is over HTTP.
func (c Config) switchPlace(verb string) (place switchctl.Place, end func(), err error) {
	switch s := c.Switch; {
	case s.File != "":
		return switchctl.File(s.File), func() {}, nil
	case s.Nacos != nil:
		return s.Nacos.place()
	case s.HTTP != nil:
		if verb == verbGet || verb == verbWatch {
			source, err := s.HTTP.open()
			if err != nil {
				return nil, nil, prefixed("switch.http.", err)
			}
			return readOnly{source}, source.Close, nil
		}
		return nil, nil, tierlock.Invalid("switch.http.url", s.HTTP.URL, "is read only: publish the document where that server has it from")
	}
	return nil, nil, tierlock.Invalid("switch", "", "is not configured: this service follows no document")
}

// readOnly is a place that only get and watch are asked of.
type readOnly struct{ switchcfg.Source }

var errReadOnly = errors.New("read only")

func (readOnly) Publish(context.Context, []byte, []byte) error      { return errReadOnly }
func (readOnly) Stands(context.Context, []byte, []byte) error       { return errReadOnly }
func (readOnly) History(context.Context) ([]switchctl.Entry, error) { return nil, errReadOnly }
func (readOnly) Keep(context.Context, switchctl.Entry) error        { return errReadOnly }

// place opens the document and its history.
func (n *NacosConfig) place() (switchctl.Place, func(), error) {
	conf, err := n.conf(nil)
	if err != nil {
		return nil, nil, prefixed("switch.nacos.", err)
	}
	document, err := nacossource.New(conf)
	if err != nil {
		return nil, nil, prefixed("switch.nacos.", err)
	}
	if conf.DataID == "" {
		conf.DataID = nacossource.DefaultDataID
	}
	conf.DataID += ".history"
	past, err := nacossource.New(conf)
	if err != nil {
		return nil, nil, prefixed("switch.nacos.", err)
	}
	return switchctl.Nacos{Document: document, Past: past}, func() {
		ctx, cancel := context.WithTimeout(context.Background(), switchTimeout)
		defer cancel()
		_ = document.Close(ctx)
		_ = past.Close(ctx)
	}, nil
}

// current fetches the document.
func current(ctx context.Context, place switchctl.Place, now time.Time) (text []byte, d switchcfg.Document, err error) {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	if text, err = place.Fetch(ctx); err != nil {
		return nil, d, err
	}
	if d, err = switchctl.Current(text, now); err != nil {
		return text, d, &unreadableError{err}
	}
	return text, d, nil
}

// unreadableError is of a document that is there and is none.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return oneLine(e.err) }
func (e *unreadableError) Unwrap() error { return e.err }
