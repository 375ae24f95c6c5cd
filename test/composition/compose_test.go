// Package composition tests what only shows when the parts stand together.
package composition

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../.."

func load(t *testing.T) *types.Project {
	t.Helper()
	opts, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithName("tierlock"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := opts.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeHasEveryServerOfTheStory(t *testing.T) {
	p := load(t)
	for _, want := range []string{"redis", "kafka", "nacos", "postgres", "prometheus", "grafana", "tierlock"} {
		if _, err := p.GetService(want); err != nil {
			t.Errorf("service %s: %v", want, err)
		}
	}
}

func TestComposePublishesOnLoopbackOnly(t *testing.T) {
	for name, s := range load(t).Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on %q", name, port.Published, port.HostIP)
			}
		}
	}
}

func TestComposeMountsFilesThatExist(t *testing.T) {
	for name, s := range load(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts %s: %v", name, v.Source, err)
			}
		}
	}
}

func TestDaemonImageIsSmallAndNotRoot(t *testing.T) {
	s, err := load(t).GetService("tierlock")
	if err != nil {
		t.Fatal(err)
	}
	if s.Build == nil {
		t.Fatal("the daemon's service builds no image")
	}
	file := s.Build.Dockerfile
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.Build.Context, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"distroless/static", "nonroot", "nodemo", "CGO_ENABLED=0"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q", file, want)
		}
	}
	spool := false
	for _, v := range s.Volumes {
		spool = spool || v.Type == types.VolumeTypeVolume && strings.HasPrefix(v.Target, "/var/lib/tierlock")
	}
	if !spool {
		t.Error("the spool is on no volume: a new container would lose what is not yet in Kafka")
	}
}
