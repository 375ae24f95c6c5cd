package nacossource

import (
	"context"
	"crypto/md5" //nolint:gosec // the server's name for a content
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nacos-group/nacos-sdk-go/v2/vo"
)

// Publish replaces was, the text that was fetched, by text, which need not be a document
// that anybody can use: check it first. The server is asked to compare; one that does not
// know how (Nacos before 2.0) lets whoever publishes last win.
func (s *Source) Publish(ctx context.Context, was, text []byte) error {
	var cas string
	if len(was) > 0 {
		sum := md5.Sum(was) //nolint:gosec // the server's name for a content
		cas = hex.EncodeToString(sum[:])
	}
	return s.call(ctx, func(context.Context) error {
		if err := s.state.connect(s); err != nil {
			return err
		}
		return s.state.client.publish(string(text), cas)
	})
}

// publish asks the server once.
func (c *connected) publish(text, cas string) error {
	ok, err := c.PublishConfig(vo.ConfigParam{DataId: c.param.DataId, Group: c.param.Group, Content: text, CasMd5: cas})
	if err != nil {
		return fmt.Errorf("nacos: publish: %w", err)
	}
	if !ok {
		return errors.New("nacos: publish: refused by the server")
	}
	return nil
}
