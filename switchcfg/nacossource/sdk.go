package nacossource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/common/logger"
	"github.com/nacos-group/nacos-sdk-go/v2/util"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
)

// errRefused marks an answer of the server that is a no.
var errRefused = errors.New("refused by the server")

// errLimited marks a question that the SDK did not put: it allows itself 5 a second about one
// configuration.
var errLimited = errors.New("limited by the client")

// unansweredPrefix is how the SDK begins its error when nobody answered, if it may not
// fall back to its snapshot. Any other error of a query carries the server's own words.
const unansweredPrefix = "get config from remote nacos server fail"

// requestTimeout is the SDK's for one request; it asks three times within it.
const requestTimeout = 3 * time.Second

// localIP fills a variable of the SDK that its clients would fill, unguarded, at the same
// time.
var localIP = sync.OnceValue(util.LocalIP)

// sdk makes clients.
type sdk struct {
	cfg          Config
	certificates certificates
	dir          string // of this process's own; "" until the first dial
}

// dial makes a client and has it listen. It may take as long as the network likes.
func (s *sdk) dial(changed func()) (client, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	host, port, err := s.cfg.hostPort()
	if err != nil {
		return nil, err
	}
	// Now, since the SDK's first logger writes to stderr, and again below, since the
	// construction replaces it by one that writes to a file.
	logger.SetLogger(quiet{s.cfg.Logger, s.cfg.Password})
	localIP()
	logDir := s.cfg.LogDir
	if logDir == "" {
		logDir = filepath.Join(s.dir, "log")
	}
	c, err := clients.NewConfigClient(vo.NacosClientParam{
		ClientConfig: &constant.ClientConfig{
			NamespaceId: s.cfg.Namespace, Username: s.cfg.Username, Password: s.cfg.Password,
			TimeoutMs: uint64(requestTimeout.Milliseconds()), BeatInterval: 5000, UpdateThreadNum: 1,
			CacheDir: filepath.Join(s.dir, "cache"), NotLoadCacheAtStart: true, DisableUseSnapShot: true,
			LogDir: logDir, LogLevel: "error", LogRollingConfig: &constant.ClientLogRollingConfig{MaxSize: 1, MaxBackups: 1},
			TLSCfg: s.certificates.config(s.cfg.TLS, s.dir),
		},
		ServerConfigs: []constant.ServerConfig{*constant.NewServerConfig(host, port)},
	})
	if err != nil {
		return nil, fmt.Errorf("nacos: %w", err)
	}
	logger.SetLogger(quiet{s.cfg.Logger, s.cfg.Password})
	// The listener tells at most that something changed. Its answer comes in no order, and
	// its first one up to 5 s late; the caller fetches after this.
	param := vo.ConfigParam{DataId: s.cfg.DataID, Group: s.cfg.Group, OnChange: func(_, _, _, _ string) { changed() }}
	if err := c.ListenConfig(param); err != nil {
		c.CloseClient()
		return nil, fmt.Errorf("nacos: %w", err)
	}
	return &connected{c, param}, nil
}

// prepare makes the folder. A fresh one each time: a file that lies in the SDK's cache
// folder under a certain name would answer in place of the server.
func (s *sdk) prepare() error {
	if s.dir != "" {
		return nil
	}
	if s.cfg.CacheDir != "" {
		if err := os.MkdirAll(s.cfg.CacheDir, 0o700); err != nil {
			return fmt.Errorf("nacos: %w", err)
		}
	}
	dir, err := os.MkdirTemp(s.cfg.CacheDir, "tierlock-nacos-")
	if err != nil {
		return fmt.Errorf("nacos: %w", err)
	}
	if err := s.certificates.write(dir); err != nil {
		_ = os.RemoveAll(dir)
		return fmt.Errorf("nacos: %w", err)
	}
	s.dir = dir
	return nil
}

func (s *sdk) tidy() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// open tells a client that is stuck from a server that is down.
func (s *sdk) open() bool {
	host, port, err := s.cfg.hostPort()
	if err != nil {
		return false
	}
	dialer := net.Dialer{Timeout: time.Second} // not the fetch's ctx: that has ended when it matters
	conn, err := dialer.DialContext(context.Background(), "tcp", net.JoinHostPort(host, strconv.FormatUint(port+grpcOffset, 10)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// connected is one client of the SDK.
type connected struct {
	config_client.IConfigClient
	param vo.ConfigParam
}

func (c *connected) get() (string, error) {
	text, err := c.GetConfig(vo.ConfigParam{DataId: c.param.DataId, Group: c.param.Group})
	switch {
	case err == nil:
		return text, nil
	case strings.Contains(err.Error(), "is limited"):
		return "", fmt.Errorf("nacos: %w: %w", errLimited, err)
	case strings.HasPrefix(err.Error(), unansweredPrefix):
		return "", fmt.Errorf("nacos: %w", err)
	default:
		return "", fmt.Errorf("nacos: %w: %w", errRefused, err)
	}
}

// drain is what the SDK's listener needs to end a round that is under way. A hint to it
// that is still in the air when the client closes would wait for ever.
const drain = 250 * time.Millisecond

// close takes the configuration from the listener first, which then has nothing to ask.
func (c *connected) close() {
	_ = c.CancelListenConfig(c.param)
	pause(context.Background(), drain)
	c.CloseClient()
}
