//go:build !nodemo

package demo

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
)

// TestTheStoryOnRealServers tells it on Redis, Kafka, a Nacos server and PostgreSQL. Nacos
// may push its first change seconds after it was asked to, so the switch lies longer.
func TestTheStoryOnRealServers(t *testing.T) {
	servers.Need(t, "Redis, Kafka, Nacos and PostgreSQL")
	o := options{
		redis: servers.Redis(t).Addr(), kafka: servers.Kafka(t).Addr(), nacos: servers.Nacos(t).Addr(), dsn: servers.Postgres(t).DSN(),
	}
	timetable := quick()
	timetable.Switch, timetable.StillDown = 9*time.Second, 3*time.Second
	r := tellQuietly(t, o, timetable, Seams{})
	if !r.OK {
		t.Fatalf("faults %v", r.faults())
	}
	if r.Conflicts.Repaired == 0 || r.Business.OverLimitBefore == 0 {
		t.Errorf("nothing was there to repair: %+v, %+v", r.Conflicts, r.Business)
	}
}
