package servers

import (
	"testing"
)

// flinkVersion is what scripts/flink.sh installs.
const flinkVersion = "2.2.1"

// FlinkJars is the folder with the jars of a Flink cluster that runs inside one process,
// and of its Kafka connector. They are 100 MB and more, so only long runs ask for them.
func FlinkJars(tb testing.TB) string {
	tb.Helper()
	Need(tb, "Flink")
	jars := cache(tb, "flink-"+flinkVersion, "lib")
	if !exists(jars) {
		tb.Fatalf("no Flink in %s: scripts/flink.sh installs it", jars)
	}
	return jars
}
