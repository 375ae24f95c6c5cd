package daemon

import (
	"errors"
	"os"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/switchcfg"
)

// Config is the one configuration file, docs/config.md field by field. It is read
// strictly: an unknown field is a fault. The zero value of a field is the default stated
// beside it.
type Config struct {
	// Service names the program in events: their producer is <service>-<instance>.
	// Default tierlock.
	Service string `yaml:"service"`
	// Instance tells two processes of one service apart. Default the host's name.
	Instance string `yaml:"instance"`
	// Prefix of every key; default biz.
	Prefix string `yaml:"prefix"`
	// Stores by name; a chain picks one with store. At least one.
	Stores map[string]StoreConfig `yaml:"stores"`
	// Switch is where operators' orders come from; none without it.
	Switch SwitchConfig `yaml:"switch"`
	// Audit is where holds are recorded.
	Audit AuditConfig `yaml:"audit"`
	// Signals records what the chains' health is judged by; not at all without it.
	Signals SignalsConfig `yaml:"signals"`
	// Listen is where the daemon answers.
	Listen ListenConfig `yaml:"listen"`
	// Reconcile is read by tierlock reconcile only.
	Reconcile ReconcileConfig `yaml:"reconcile"`
	// Log goes to standard error.
	Log LogConfig `yaml:"log"`
	// Chains are the business flows by name, each read over the defaults of its class, so
	// that a missing field is the default and zero is zero. At least one.
	Chains map[string]gateway.Policy `yaml:"chains"`
}

// SignalsConfig is where health is recorded for tierlock simulate.
type SignalsConfig struct {
	File     string `yaml:"file"`      // none: nothing is recorded
	MaxBytes int64  `yaml:"max_bytes"` // 64 MiB: then the file is put aside as file.1
}

// StoreConfig is one shared store.
type StoreConfig struct {
	Kind     string        `yaml:"kind"`      // redis
	Addrs    []string      `yaml:"addrs"`     // host:port of the server, or of sentinels, or of some of a Cluster
	Sentinel *Sentinel     `yaml:"sentinel"`  // none
	Cluster  bool          `yaml:"cluster"`   // false
	DB       int           `yaml:"db"`        // 0
	Username string        `yaml:"username"`  // none
	Password Secret        `yaml:",inline"`   // none
	TLS      *TLSConfig    `yaml:"tls"`       // none: no TLS
	Wire     int           `yaml:"wire"`      // 1024: acquires out at once
	PoolSize int           `yaml:"pool_size"` // 64: connections for acquires, and as many for the rest
	Timeout  time.Duration `yaml:"timeout"`   // 200ms: one question
	// Functions calls the functions that tierlock functions load puts there; default false:
	// scripts.
	Functions bool `yaml:"functions"`
}

// Sentinel says what sentinels are asked for, and as whom.
type Sentinel struct {
	Master   string `yaml:"master"`   // name under which they watch it; required
	Username string `yaml:"username"` // none
	Password Secret `yaml:",inline"`  // none
}

// SwitchConfig is the source of switch documents: Nacos, a web server or a file.
type SwitchConfig struct {
	Nacos    *NacosConfig  `yaml:"nacos"`
	HTTP     *HTTPConfig   `yaml:"http"`
	File     string        `yaml:"file"`
	Poll     time.Duration `yaml:"poll"`      // 4s
	LastGood string        `yaml:"last_good"` // none: after a restart the source must answer first
	// Verify is a PEM file with the Ed25519 public keys that sign documents; none:
	// signatures are not looked at. Read once.
	Verify string `yaml:"verify_file"`
}

// NacosConfig is a Nacos server.
type NacosConfig struct {
	Addr      string    `yaml:"addr"`
	Namespace string    `yaml:"namespace"` // public
	Group     string    `yaml:"group"`     // TIERLOCK
	DataID    string    `yaml:"data_id"`   // tierlock.switch
	CacheDir  string    `yaml:"cache_dir"` // for what the SDK keeps, which is never read; a temporary folder
	LogDir    string    `yaml:"log_dir"`   // for what the SDK logs of its own start; in cache_dir
	Username  string    `yaml:"username"`
	Password  Secret    `yaml:",inline"`
	TLS       *NacosTLS `yaml:"tls"`
}

// HTTPConfig is a web server with the document on one address.
type HTTPConfig struct {
	URL      string     `yaml:"url"`
	Username string     `yaml:"username"` // none: a password alone is sent as a bearer token
	Password Secret     `yaml:",inline"`  // read again for every question
	TLS      *TLSConfig `yaml:"tls"`      // none: the system's roots
}

// NacosTLS is TLS to Nacos. Its files are read again until they can be used: a switch that
// cannot be followed yet keeps no lock from being served.
type NacosTLS struct {
	CA   string `yaml:"ca_file"`   // PEM; beside the system's roots
	Cert string `yaml:"cert_file"` // PEM; none. With key_file
	Key  string `yaml:"key_file"`  // PEM
}

// AuditConfig is the spool and where it is forwarded to.
type AuditConfig struct {
	Dir       string        `yaml:"dir"`         // of the spool; required unless every chain says audit: off
	Kafka     *KafkaConfig  `yaml:"kafka"`       // none: events stay in dir
	Quota     int64         `yaml:"quota_bytes"` // 2 GiB
	Linger    time.Duration `yaml:"linger"`      // 0s
	Heartbeat time.Duration `yaml:"heartbeat"`   // 5s
	Adopt     string        `yaml:"adopt"`       // none: folder of spools whose orphans are forwarded; needs kafka
	Digest    *DigestConfig `yaml:"digest"`      // none: events show every key
}

// DigestConfig hides lock ids that hold personal data; see [audit.Digest].
type DigestConfig struct {
	Chains     []string `yaml:"chains"`      // whose keys are hidden; required
	SecretEnv  string   `yaml:"secret_env"`  // name of the variable that holds the secret, 16 bytes or more
	SecretFile string   `yaml:"secret_file"` // or the file
}

// KafkaConfig is a Kafka cluster and the topics.
type KafkaConfig struct {
	Brokers    []string   `yaml:"brokers"`
	Topic      string     `yaml:"topic"`      // tierlock.events.v1
	DLQ        string     `yaml:"dlq"`        // tierlock.events.v1.dlq
	Partitions int        `yaml:"partitions"` // 12; only when the topic is created
	Replicas   int        `yaml:"replicas"`   // the broker's default; only when the topic is created
	TLS        *TLSConfig `yaml:"tls"`
	SASL       *KafkaSASL `yaml:"sasl"` // none
}

// KafkaSASL is how a broker is told who we are.
type KafkaSASL struct {
	Mechanism string `yaml:"mechanism"` // SCRAM-SHA-512; SCRAM-SHA-256, or PLAIN with tls
	Username  string `yaml:"username"`  // required
	Password  Secret `yaml:",inline"`   // required; read again for every connection
}

// ListenConfig says where the daemon answers. Nobody is asked for a password, so it is
// loopback unless remote is said.
type ListenConfig struct {
	Data   string        `yaml:"data"`   // 127.0.0.1:7070
	Admin  string        `yaml:"admin"`  // 127.0.0.1:7071
	Remote bool          `yaml:"remote"` // false: addresses that are not loopback are refused
	Grace  time.Duration `yaml:"grace"`  // 10s: requests under way and the spool, each, at the end
}

// ReconcileConfig is the job of tierlock reconcile.
type ReconcileConfig struct {
	Listen       string                `yaml:"listen"`        // 127.0.0.1:7072: the job's own admin pages
	Group        string                `yaml:"group"`         // tierlock-reconcile; a dry run adds -dry-run
	Idle         time.Duration         `yaml:"idle"`          // 1h
	Quiet        time.Duration         `yaml:"quiet"`         // 20s
	Lateness     time.Duration         `yaml:"lateness"`      // 1s
	HookTimeout  time.Duration         `yaml:"hook_timeout"`  // 30s: one call of a hook
	StoreTimeout time.Duration         `yaml:"store_timeout"` // 30s: one call of the tables and topics of findings, approvals and dead letters
	Rule         reconcile.Rule        `yaml:"rule"`
	Findings     string                `yaml:"findings_topic"` // tierlock.findings.v1
	Database     *DatabaseConfig       `yaml:"database"`       // none: findings go to the topic alone
	Hooks        map[string]HookConfig `yaml:"hooks"`          // by business type
	Caps         CapsConfig            `yaml:"caps"`
}

// DatabaseConfig is the business database: findings, repairs and what hooks look at.
type DatabaseConfig struct {
	Driver  string `yaml:"driver"`   // postgres
	DSNEnv  string `yaml:"dsn_env"`  // name of the variable that holds the DSN
	DSNFile string `yaml:"dsn_file"` // or the file
}

// CapsConfig bounds repairs. Amounts are what checks find wrong.
type CapsConfig struct {
	PerMinute       int     `yaml:"per_minute"`        // 60
	Total           int     `yaml:"total"`             // unlimited
	AmountPerMinute int64   `yaml:"amount_per_minute"` // unlimited
	AmountTotal     int64   `yaml:"amount_total"`      // unlimited
	Tries           int     `yaml:"tries"`             // 5
	FailureRatio    float64 `yaml:"failure_ratio"`     // 0.05
}

// LogConfig is the log on standard error.
type LogConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn or error; info
	Format string `yaml:"format"` // text or json; json
}

// Load reads and checks the file at path. Every fault is reported at once, each a
// [*tierlock.InvalidError]; nothing is opened or dialled.
func Load(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, tierlock.Invalid("-c", path, "cannot be read: "+err.Error())
	}
	c, err := Parse(text)
	return c, ofFile(path, err)
}

// ofFile names the file in faults of the text as a whole, which have no field to be found by.
func ofFile(path string, err error) error {
	all := tierlock.Invalids(err)
	if len(all) == 0 {
		return err
	}
	named := make([]error, len(all))
	for i, f := range all {
		if named[i] = f; f.Field == "text" {
			named[i] = tierlock.Invalid("-c", path, f.Rule)
		}
	}
	return errors.Join(named...)
}

// Parse is Load on the text of a file.
func Parse(text []byte) (Config, error) {
	c := Config{Chains: classDefaults(text)}
	unreadable := switchcfg.Decode(text, &c)
	if unreadable != nil && len(c.Stores)+len(c.Chains) == 0 {
		return Config{}, unreadable // as a whole: what Validate would miss is not missing
	}
	if err := errors.Join(unreadable, without(c.Validate(), unreadable)); err != nil {
		return Config{}, err
	}
	return c, nil
}

// without leaves out of err the fields that told already has: what could not be read is
// not wrong a second time for being empty.
func without(err, told error) error {
	known := map[string]bool{}
	for _, f := range tierlock.Invalids(told) {
		known[f.Field] = true
	}
	var rest []error
	for _, f := range tierlock.Invalids(err) {
		if !known[f.Field] {
			rest = append(rest, f)
		}
	}
	return errors.Join(rest...)
}

// classDefaults returns the defaults of each chain in text, by its class. What else stands
// in the text is read, and judged, by the second reading. A chain without a class has
// those of a weak one, and the missing class is its fault.
func classDefaults(text []byte) map[string]gateway.Policy {
	var classes struct {
		Chains map[string]struct {
			Class  string `yaml:"class"`
			Preset string `yaml:"preset"`
		} `yaml:"chains"`
	}
	_ = switchcfg.Decode(text, &classes) // every other field is unknown to it
	defaults := make(map[string]gateway.Policy, len(classes.Chains))
	for name, c := range classes.Chains {
		p := gateway.Weak("", 0)
		if c.Class == degrade.ClassStrong.String() {
			p = gateway.Strong("", 0)
		}
		var preset gateway.Preset
		_ = preset.UnmarshalText([]byte(c.Preset)) // the second reading finds a wrong one
		p = p.With(preset)
		p.Ladder.Class = 0 // the second reading sets it, or finds it missing
		defaults[name] = p
	}
	return defaults
}
