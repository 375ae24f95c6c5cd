package daemon

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
)

// TestAnOrderReachesTheDaemonByNacos: within 6 s of the change, as the requirement has it.
func TestAnOrderReachesTheDaemonByNacos(t *testing.T) {
	t.Parallel()
	nacos := servers.Nacos(t)
	redis, _ := inProcess(t)
	c := config(t, t.TempDir(), redis, "")
	c.Switch.File, c.Switch.Nacos = "", &NacosConfig{Addr: nacos.Addr()}
	d := run(t, c)
	for version, mode := range []string{"bypass", "local"} {
		nacos.Put("tierlock.switch", "TIERLOCK", fmt.Sprintf("version: %d\nchains:\n  coupon: {mode: %s, until: %s, reason: test, by: test}\n",
			version+1, mode, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
		began := time.Now()
		until(t, "the order is in force", func() bool { return d.gw.AppliedVersion() == uint64(version)+1 })
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("version %d took %v", version+1, took)
		}
		d.want("/v1/try", fmt.Sprintf(`{"key":"biz:coupon:lock:%d"}`, version), `200 {"outcome":"success","tier":"`+mode+`","reason":"forced"`)
	}
	if page := d.get("/metrics"); strings.Contains(page, "nacos_") || !strings.Contains(page, "tierlock_switch_version 2") {
		t.Error("the SDK's metrics, of the default registry, are on our page")
	}
}

// TestACertificateThatCannotBeReadEndsNothing: the daemon serves, and says why it follows
// no switch.
func TestACertificateThatCannotBeReadEndsNothing(t *testing.T) {
	redis, _ := inProcess(t)
	dir := t.TempDir()
	c := config(t, dir, redis, "")
	absent := filepath.Join(dir, "absent.pem")
	c.Switch.File = ""
	c.Switch.Nacos = &NacosConfig{Addr: nobody(t), TLS: &NacosTLS{Cert: absent, Key: absent}}
	if err := c.Validate(); err != nil {
		t.Fatalf("the file is not read before it is needed: %v", err)
	}
	d := run(t, c)
	d.want("/v1/try", keyA, `200 {"outcome":"success","tier":"shared"`)
	until(t, "the log names the certificate", func() bool { return strings.Contains(d.log.String(), absent) })
}
