// Package servers LAUNCHES real servers for tests: Redis (alone, behind
// sentinels, as a Cluster), Kafka, Nacos, PostgreSQL and
// MariaDB, each a child process on a free loopback port with a folder of its own. A server is ready when
// its launcher returns and gone when the test ends, however it ends: by return, by panic
// or by SIGKILL.
//
// It is for tests only, speaks no more of a protocol than readiness needs, and installs
// nothing: that is scripts/servers.sh.
package servers
