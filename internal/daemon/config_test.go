package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
)

// example is the file of the documentation's first page.
const example = `
service: shop-order
prefix: biz
stores:
  main: {kind: redis, addrs: ["127.0.0.1:6379"], pool_size: 64}
switch: {nacos: {addr: "127.0.0.1:8848", namespace: "", data_id: tierlock.switch, group: TIERLOCK}, poll: 4s, last_good: /var/lib/tierlock/switch.last}
audit: {dir: /var/lib/tierlock/spool, kafka: {brokers: ["127.0.0.1:9092"], topic: tierlock.events.v1}}
listen: {data: "127.0.0.1:7070", admin: "127.0.0.1:7071"}
chains:
  order:  {class: strong, protects: "one sale of a sku at a time", on_lost: fence, version_guard: true}
  coupon: {class: weak, protects: "one claim of a coupon per user at a time", on_lost: reconcile, local: {permits: 1}, on_down: local}
`

func TestLoadNamesTheFileThatIsNoConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "is empty",
		"# later\n":                "is empty",
		"stores: [a":               "is neither YAML nor JSON: line 1",
		"just words":               "want fields (name: value) (line 1)",
		"service: a\n---\nlog: {}": "holds a second document (line 2)",
	} {
		path := write(t, text)
		_, err := Load(path)
		all := tierlock.Invalids(err)
		if len(all) != 1 || all[0].Field != "-c" || all[0].Value != path || !strings.Contains(all[0].Rule, want) {
			t.Errorf("%q: %v, want -c %q and %q", text, err, path, want)
		}
	}
}

func TestChainsDecodeOverTheDefaultsOfTheirClass(t *testing.T) {
	c, err := Parse([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	order := gateway.Strong("one sale of a sku at a time", gateway.Fence)
	order.Ladder.VersionGuard = true
	coupon := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	coupon.Local.Permits, coupon.Ladder.OnDown = 1, degrade.FallbackLocal
	if c.Chains["order"] != order {
		t.Errorf("order\n got %+v\nwant %+v", c.Chains["order"], order)
	}
	if c.Chains["coupon"] != coupon {
		t.Errorf("coupon\n got %+v\nwant %+v", c.Chains["coupon"], coupon)
	}
	if c.Stores["main"].PoolSize != 64 || c.Switch.Poll != 4*time.Second || c.Audit.Kafka.Topic != "tierlock.events.v1" {
		t.Errorf("%+v", c)
	}
}

func TestAPresetIsReadBeforeWhatStandsBesideIt(t *testing.T) {
	const base = `
stores: {main: {kind: redis, addrs: ["127.0.0.1:6379"]}}
audit: {dir: ./spool}
chains:
  c: {preset: flow, wait: 1s, shards: 100, class: weak, protects: "x", on_lost: reconcile}
`
	c, err := Parse([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	want := gateway.Weak("x", gateway.Reconcile).Flow()
	want.Wait, want.Shards = time.Second, 100
	if c.Chains["c"] != want {
		t.Errorf("\n got %+v\nwant %+v", c.Chains["c"], want)
	}
	if _, err := Parse([]byte(strings.Replace(base, "flow", "large", 1))); err == nil || !strings.Contains(err.Error(), "chains.c.preset") {
		t.Errorf("an unknown preset: %v", err)
	}
}

func TestEveryFaultIsReportedAtOnce(t *testing.T) {
	_, err := Parse([]byte(`
service: "shop order"
stores:
  main: {kind: redis, addrs: ["nowhere"], pool_size: -1, colour: blue}
  other: {kind: mongo}
switch: {file: a, nacos: {addr: ""}, http: {url: "ftp://x", username: u}, poll: soon}
audit: {kafka: {brokers: []}}
listen: {data: "0.0.0.0:7070", grace: -1s}
log: {level: loud}
reconcile: {hooks: {coupon: {check: ""}}}
chains:
  order: {ttl: 1h, on_lost: cancel}
  "Bad Name": {class: weak, protects: p, on_lost: fence, store: nosuch}
`))
	var got []string
	for _, f := range tierlock.Invalids(err) {
		got = append(got, f.Field)
	}
	for _, want := range []string{
		"service", "stores.main.addrs", "stores.main.pool_size", "stores.main.colour", "stores.other.kind", "switch", "switch.poll", "switch.http.url", "switch.http.password_env",
		"switch.nacos.addr", "audit.dir", "audit.kafka.brokers", "listen.data", "listen.grace", "log.level", "reconcile.hooks.coupon.check",
		"chains.order.class", "chains.order.protects", "chains.order.ttl", "chains.order.store", "chains", "chains.Bad Name.store",
	} {
		if n := count(got, want); n != 1 {
			t.Errorf("%s is reported %d times in %v", want, n, got)
		}
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

func TestBadConfigurations(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TIERLOCK_TEST_EMPTY", "")
	good := func(old, by string) string { return strings.Replace(example, old, by, 1) }
	redis := `addrs: ["127.0.0.1:6379"]`
	for name, c := range map[string]struct{ text, field, rule string }{
		"nothing":                      {"", "", "empty"},
		"no YAML":                      {"a: [", "", ""},
		"unknown field":                {good("prefix: biz", "prefixx: biz"), "prefixx", "is not known here"},
		"unknown field of a chain":     {good("version_guard: true", "version_gard: true"), "chains.order.version_gard", "is not known here"},
		"no class":                     {good("class: strong, ", ""), "chains.order.class", ""},
		"a class that is none":         {good("class: strong", "class: stronk"), "chains.order.class", "want one of strong, weak"},
		"no protects":                  {good(`protects: "one sale of a sku at a time", `, ""), "chains.order.protects", "say in a sentence"},
		"no on_lost":                   {good("on_lost: fence, ", ""), "chains.order.on_lost", "say cancel, fence or reconcile"},
		"strong that steps down":       {good("version_guard: true", "on_down: local"), "chains.order.on_down", ""},
		"a duration without its unit":  {good("version_guard: true", "ttl: 15"), "chains.order.ttl", "want a duration with its unit"},
		"a ttl of half a second":       {good("version_guard: true", "ttl: 500ms"), "chains.order.ttl", "want 1s to 10m0s"},
		"a poll of an hour":            {good("poll: 4s", "poll: 1h"), "switch.poll", "want 0s (4s) to 4s: a flip whose push is lost"},
		"a field twice":                {good("prefix: biz", "prefix: biz\nprefix: biz"), "prefix", "is given twice"},
		"no address":                   {good(redis, `addrs: []`), "stores.main.addrs", "is required"},
		"a port with a letter":         {good(redis, `addrs: ["127.0.0.1:26391x"]`), "stores.main.addrs", "want host:port, the port a whole number from 1 to 65535"},
		"a port that is too large":     {good(redis, `addrs: ["127.0.0.1:99999"]`), "stores.main.addrs", "from 1 to 65535"},
		"a port of 0":                  {good(redis, `addrs: ["127.0.0.1:0"]`), "stores.main.addrs", "from 1 to 65535"},
		"a store without a port":       {good(redis, `addrs: ["127.0.0.1"]`), "stores.main.addrs", "want host:port"},
		"a store without a host":       {good(redis, `addrs: [":6379"]`), "stores.main.addrs", "want host:port"},
		"a broker's port":              {good("127.0.0.1:9092", "127.0.0.1:9092x"), "audit.kafka.brokers", "from 1 to 65535"},
		"a broker without a host":      {good("127.0.0.1:9092", ":9092"), "audit.kafka.brokers", "want host:port"},
		"Nacos' port":                  {good("127.0.0.1:8848", "127.0.0.1:8848x"), "switch.nacos.addr", "want a port from 1 to"},
		"Nacos without a host":         {good("127.0.0.1:8848", ":8848"), "switch.nacos.addr", "want host:port"},
		"a port to listen on":          {good("127.0.0.1:7071", "127.0.0.1:99999"), "listen.admin", "from 0 to 65535"},
		"a port of the job":            {good("chains:", `reconcile: {listen: "127.0.0.1:7072x"}`+"\nchains:"), "reconcile.listen", "from 0 to 65535"},
		"a web server's port":          {good(`nacos: {addr: "127.0.0.1:8848", namespace: "", data_id: tierlock.switch, group: TIERLOCK}`, `http: {url: "http://127.0.0.1:99999/x"}`), "switch.http.url", "want an http or https address"},
		"a webhook's port":             {good("chains:", `reconcile: {hooks: {coupon: {webhook: {url: "http://127.0.0.1:99999/x", secret_env: X}}}}`+"\nchains:"), "reconcile.hooks.coupon.webhook.url", "want http://host/path"},
		"two addresses":                {good(redis, `addrs: ["a:1", "b:1"]`), "stores.main.addrs", "exactly one address"},
		"sentinels and a Cluster":      {good(redis, redis+", sentinel: {master: m}, cluster: true"), "stores.main.cluster", "not both"},
		"sentinels without a master":   {good(redis, redis+", sentinel: {}"), "stores.main.sentinel.master", "is required"},
		"sentinels' password":          {good(redis, redis+", sentinel: {master: m, password_file: /nowhere}"), "stores.main.sentinel.password_file", "cannot be read"},
		"a Cluster's database":         {good(redis, redis+", cluster: true, db: 1"), "stores.main.db", "want 0"},
		"password variable not set":    {good(redis, redis+", password_env: TIERLOCK_TEST_EMPTY"), "stores.main.password_env", "is not set"},
		"password file that is absent": {good(redis, redis+", password_file: /nowhere"), "stores.main.password_file", "cannot be read"},
		"password twice":               {good(redis, redis+", password_env: A, password_file: "+secret), "stores.main.password_file", "want either"},
		"certificate that is absent":   {good(redis, redis+", tls: {ca_file: /nowhere}"), "stores.main.tls.ca_file", "no certificate"},
		"key without certificate":      {good(redis, redis+", tls: {key_file: /nowhere}"), "stores.main.tls.cert_file", "or neither"},
		"an address others can reach":  {good("127.0.0.1:7070", "192.0.2.1:7070"), "listen.data", "is not loopback"},
		"an address without a port":    {good("127.0.0.1:7071", "127.0.0.1"), "listen.admin", "want host:port"},
		"a topic Kafka would refuse":   {good("topic: tierlock.events.v1", `topic: "a b"`), "audit.kafka.topic", "want 1 to 249"},
		"an unknown driver":            {good("chains:", "reconcile: {database: {driver: oracle, dsn_env: X}}\nchains:"), "reconcile.database.driver", "want postgres"},
		"no DSN":                       {good("chains:", "reconcile: {database: {driver: postgres}}\nchains:"), "reconcile.database.dsn_env", "want dsn_env or dsn_file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			if !errors.Is(err, tierlock.ErrInvalid) {
				t.Fatalf("error %v", err)
			}
			faults := tierlock.Invalids(err)
			if len(faults) != 1 {
				t.Errorf("%d faults, want one: %v", len(faults), err)
			}
			if f := faults[0]; c.field != "" && f.Field != c.field || !strings.Contains(f.Rule, c.rule) {
				t.Errorf("fault %s: %s", f.Field, f.Rule)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

// Each of several bad addresses is told, and those that are good are not.
func TestEveryBadAddressIsTold(t *testing.T) {
	_, err := Parse([]byte(strings.Replace(example, `addrs: ["127.0.0.1:6379"]`, `cluster: true, addrs: ["[::1]:6379", "127.0.0.1:26391x", "redis.example:6379", "127.0.0.1:99999", "redis"]`, 1)))
	var values []string
	for _, f := range tierlock.Invalids(err) {
		if f.Field != "stores.main.addrs" {
			t.Errorf("%v", f)
		}
		values = append(values, f.Value)
	}
	if want := []string{"127.0.0.1:26391x", "127.0.0.1:99999", "redis"}; !slices.Equal(values, want) {
		t.Errorf("told %q, want %q", values, want)
	}
}

func TestRemoteAddressesWhereTheOwnerSaysSo(t *testing.T) {
	if _, err := Parse([]byte(strings.Replace(example, `data: "127.0.0.1:7070"`, `data: "0.0.0.0:7070", remote: true`, 1))); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TIERLOCK_TEST_PASSWORD", "from env")
	for want, s := range map[string]Secret{"from env": {Env: "TIERLOCK_TEST_PASSWORD"}, "from file": {File: file}, "": {}} {
		if got, err := s.value(); err != nil || got != want {
			t.Errorf("%+v: %q, %v", s, got, err)
		}
	}
}

func TestProducersOfTwoHostsDiffer(t *testing.T) {
	for want, c := range map[string]Config{
		"shop-order-1": {Service: "shop-order", Instance: "1"},
		"tierlock-a_b": {Instance: "a b"},
	} {
		if got := c.producer(); got != want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := (&Config{Service: "shop"}).producer(); got != "shop-"+wireWord(host) {
		t.Errorf("producer %s on host %s", got, host)
	}
}

func TestTheContainersFileIsGood(t *testing.T) {
	if _, err := Load("../../deploy/docker/tierlock.yaml"); err != nil {
		t.Error(err)
	}
}
