package switchcfg_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
)

// Every fault of a configuration file is told at once, by its path.
func ExampleDecode() {
	var config struct {
		Service string `yaml:"service"`
		Chains  map[string]struct {
			TTL  time.Duration `yaml:"ttl"`
			Tier tierlock.Tier `yaml:"tier"`
		} `yaml:"chains"`
	}
	err := switchcfg.Decode([]byte("servise: shop\nchains:\n  order: {ttl: 15, tier: redis}\n"), &config)
	fmt.Println(err)
	// Output:
	// tierlock: invalid servise "shop": is not known here: want one of service, chains (line 1)
	// tierlock: invalid chains.order.ttl "15": want a duration with its unit, as 300ms or 5s (line 3)
	// tierlock: invalid chains.order.tier "redis": want one of shared, optimistic, local, bypass (line 3)
}

// Following a file until the first document is in force.
func ExampleFollow() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "switch.yaml")
	order := switchcfg.Directive{Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "Redis under DDoS", By: "oncall"}
	if err := switchcfg.WriteFile(path, switchcfg.Document{Version: 42, Chains: map[string]switchcfg.Directive{"coupon": order}}); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = switchcfg.Follow(ctx, switchcfg.File(path), switchcfg.FollowConfig{}, func(d switchcfg.Document) error {
		fmt.Println(d.Version, d.Chains["coupon"].Mode)
		cancel()
		return nil
	})
	fmt.Println(err)
	// Output:
	// 42 bypass
	// context canceled
}
