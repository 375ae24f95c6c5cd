package archtest

// module is the path every package of this repository starts with.
const module = "github.com/tierlock/tierlock"

// allowed says which packages of this repository each package may import, root left out:
// everybody may. A package that is not listed may be imported by nobody but the binary
// and tests, and fails the test until it gets a line here.
var allowed = map[string][]string{
	"":                      {},
	"degrade":               {},
	"breaker":               {},
	"localfallback":         {},
	"guard":                 {},
	"guard/guardtest":       {"guard"},
	"spec":                  {},
	"switchcfg":             {"internal/hostport"},
	"switchcfg/nacossource": {"switchcfg"},
	"switchcfg/nacostest":   {},
	"audit":                 {"audit/spool"},
	"audit/spool":           {},
	"audit/spool/powerfs":   {"audit/spool"},
	"audit/kafkasink":       {"audit", "internal/hostport"},
	"backend/redisstore":    {"internal/hostport"},
	"backend/backendtest":   {"internal/pulse"},
	"gateway":               {"degrade", "breaker", "localfallback", "audit", "switchcfg"},
	"gateway/gatewaytest":   {"gateway", "audit", "switchcfg", "localfallback", "degrade"},
	"reconcile":             {"audit", "internal/hostport"},
	"reconcile/kafkasource": {"reconcile", "audit", "internal/hostport"},
	"reconcile/incident":    {"reconcile", "audit"},
	"metrics":               {"gateway", "audit", "reconcile", "degrade", "switchcfg"},
	"internal/api":          {"gateway", "audit"},
	"internal/signals":      {"gateway", "degrade", "switchcfg"},
	"internal/switchctl":    {"switchcfg", "switchcfg/nacossource"},
	"internal/daemon":       {"*"},
	"internal/demo":         {"*"},
	"internal/demo/*":       {},
	"internal/flagrule":     {},
	"internal/hostport":     {},
	"internal/memory":       {},
	"internal/pulse":        {},
	"internal/trace":        {},
	"internal/postgres":     {},
	"internal/servers":      {},
	"internal/way":          {},
	"internal/archtest":     {},
	"examples/order":        {"gateway", "guard", "audit"},
	"examples/coupon":       {"gateway", "audit"},
	"examples/shop":         {"gateway", "audit", "backend/redisstore", "examples/coupon", "examples/order", "guard", "internal/postgres"},
	"examples/repairs":      {"audit", "reconcile", "switchcfg", "internal/postgres"},
	"cmd/tierlock":          {"internal/daemon", "internal/demo"},
}

// homes says in which folders a third-party module may be imported by code that ships.
// What is not listed may not be imported at all. Tests may use drivers directly.
var homes = map[string][]string{
	"github.com/redis/go-redis/v9":           {"backend/redisstore"},
	"github.com/sony/gobreaker/v2":           {"breaker"},
	"github.com/maypok86/otter/v2":           {"localfallback"},
	"github.com/segmentio/kafka-go":          {"audit/kafkasink", "reconcile/kafkasource"},
	"github.com/nacos-group/nacos-sdk-go/v2": {"switchcfg/nacossource"},
	"google.golang.org/grpc":                 {"switchcfg/nacostest"},
	"google.golang.org/protobuf":             {"switchcfg/nacostest"},
	"go.yaml.in/yaml/v3":                     {"switchcfg"},
	"github.com/prometheus/client_golang":    {"metrics"},
	"github.com/alicebob/miniredis/v2":       {"internal/demo/memredis"},
	"github.com/twmb/franz-go":               {"internal/demo/memkafka"},
	"modernc.org/sqlite":                     {"internal/demo/sqlite"},
	"github.com/jackc/pgx/v5":                {"internal/postgres"},
}
