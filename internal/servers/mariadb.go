package servers

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// MariaDBServer is one real MariaDB with an empty database named test.
type MariaDBServer struct {
	Process
	addr string
}

// Addr is "127.0.0.1:port", the same after Restart.
func (s *MariaDBServer) Addr() string { return s.addr }

// DSN names the database as go-sql-driver/mysql reads it; whoever connects may do anything.
func (s *MariaDBServer) DSN() string { return "root@tcp(" + s.addr + ")/test" }

// MariaDB starts a server with InnoDB as it comes, but for small buffers, no accounts and
// a log that is written at each commit and synced once a second: a killed server loses
// nothing, only a power cut would. args are further options, each as on its command line
// ("--innodb-snapshot-isolation=ON"), and win over the defaults. It refuses to run as root,
// so as root it runs as the user mysql or nobody.
func MariaDB(tb testing.TB, args ...string) *MariaDBServer {
	tb.Helper()
	Need(tb, "MariaDB")
	path, owner := mariadbd(tb), unprivileged(tb, "mysql", "nobody")
	port, release := freePorts(tb)
	dir := newFolder(tb, "mariadb", owner)
	version, err := mariadbVersion(path)
	if err == nil {
		err = initMariaDB(dir.path, cache(tb, "mariadb-"+version), owner)
	}
	if err != nil {
		dir.remove()
		release()
		tb.Fatalf("mariadb: %v", err)
	}
	pidFile, addr := filepath.Join(dir.path, "pid"), loopback(port)
	own := []string{
		"--no-defaults", "--datadir=" + filepath.Join(dir.path, dataName), "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port),
		"--socket=mariadb.sock", "--pid-file=" + pidFile, "--skip-name-resolve", "--skip-grant-tables",
		"--innodb-buffer-pool-size=16M", mariadbLog, "--innodb-flush-log-at-trx-commit=2",
	}
	return &MariaDBServer{addr: addr, Process: launch(tb, command{
		name:  "mariadb",
		path:  path,
		args:  append(own, args...),
		user:  owner,
		ready: func(pid int) (string, error) { return version, mariadbReady(pidFile, addr, pid) },
	}, dir, release)}
}

// mariadbLog keeps a template at 26 MB instead of 114. A server whose option is another
// than its files' would write them anew.
const mariadbLog = "--innodb-log-file-size=8M"

// mariadbd is where the server lies: Debian keeps it off a user's PATH.
func mariadbd(tb testing.TB) string {
	tb.Helper()
	if path := "/usr/sbin/mariadbd"; exists(path) {
		return path
	}
	return look(tb, "mariadbd")
}

// mariadbVersion is the third word of "mariadbd  Ver 10.11.19-MariaDB for …".
func mariadbVersion(path string) (string, error) {
	out, err := exec.Command(path, "--no-defaults", "--version").Output()
	if err != nil {
		return "", err
	}
	if words := strings.Fields(string(out)); len(words) > 2 && words[1] == "Ver" {
		return words[2], nil
	}
	return "", fmt.Errorf("no version in %q", out)
}

// initMariaDB makes dir/data an empty server: a copy of the template where there is one,
// else by mariadb-install-db, which takes two seconds.
func initMariaDB(dir, template string, owner *syscall.Credential) error {
	data := filepath.Join(dir, dataName)
	if exists(template) {
		return fromTemplate(data, template, owner)
	}
	cmd := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-name-resolve", mariadbLog)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: owner}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	return keep(data, template)
}

// mariadbReady wants our own server's pid in its file, and its greeting: an open port alone
// may belong to somebody else.
func mariadbReady(pidFile, addr string, pid int) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(text)); got != strconv.Itoa(pid) {
		return fmt.Errorf("the pid file says %q", got)
	}
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	head, err := bufio.NewReader(conn).Peek(5) // three bytes of length, a number, the protocol
	if err != nil {
		return err
	}
	if head[4] != 10 {
		return errors.New("no greeting of protocol 10")
	}
	return nil
}
