package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// PostgresServer is one real PostgreSQL with an empty database.
//
// Its Kill is PostgreSQL's immediate shutdown: for data the same as a crash, but the
// server still gives its System V shared memory back, which no folder's removal would.
type PostgresServer struct {
	Process
	addr string
}

// Addr is "127.0.0.1:port", the same after Restart.
func (s *PostgresServer) Addr() string { return s.addr }

// DSN is the URL of the database, as its superuser.
func (s *PostgresServer) DSN() string {
	return "postgres://postgres@" + s.addr + "/postgres?sslmode=disable"
}

// Postgres starts a server without fsync: a killed server loses nothing, only a power cut
// would. It refuses to run as root, so as root it runs as the user postgres or nobody.
func Postgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	Need(tb, "PostgreSQL")
	bin, owner := postgresBin(tb), unprivileged(tb, "postgres", "nobody")
	port, release := freePorts(tb)
	dir := newFolder(tb, "postgres", owner)
	version, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err == nil {
		template := cache(tb, "postgres-"+strings.Join(strings.Fields(string(version)), "-"))
		err = initPostgres(filepath.Join(bin, "initdb"), dir.path, template, owner)
	}
	if err != nil {
		dir.remove()
		release()
		tb.Fatalf("postgres: %v", err)
	}
	data := filepath.Join(dir.path, dataName)
	return &PostgresServer{addr: loopback(port), Process: launch(tb, command{
		name: "postgres",
		path: filepath.Join(bin, "postgres"),
		args: []string{
			"-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", "",
			"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "dynamic_shared_memory_type=mmap",
		},
		user:  owner,
		death: syscall.SIGQUIT,
		ready: func(pid int) (string, error) {
			return strings.TrimPrefix(strings.TrimSpace(string(version)), "postgres "), postgresReady(data, pid)
		},
	}, dir, release)}
}

// postgresBin is where the server lies: Debian keeps it off PATH, one folder a version.
func postgresBin(tb testing.TB) string {
	tb.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	best, newest := "", -1
	for _, path := range found {
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))); err == nil && n > newest {
			best, newest = filepath.Dir(path), n
		}
	}
	if best == "" {
		return filepath.Dir(look(tb, "postgres"))
	}
	return best
}

// unprivileged is whom to run a server as that refuses to be root: the first of users that
// exists, or nil for ourselves.
func unprivileged(tb testing.TB, users ...string) *syscall.Credential {
	tb.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range users {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	tb.Fatalf("the server refuses to run as root, and there is no user %s", strings.Join(users, " or "))
	return nil
}

// initPostgres makes dir/data an empty cluster: a copy of the template where there is one,
// else by initdb, which takes a second of two cores.
func initPostgres(initdb, dir, template string, owner *syscall.Credential) error {
	data := filepath.Join(dir, dataName)
	if exists(template) {
		return fromTemplate(data, template, owner)
	}
	cmd := exec.Command(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: owner}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return keep(data, template)
}

// fromTemplate copies the data of an empty server, with the mode and the owner that
// servers insist on.
func fromTemplate(data, template string, owner *syscall.Credential) error {
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		return err
	}
	return filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		if err == nil && owner != nil {
			err = os.Chown(path, int(owner.Uid), int(owner.Gid))
		}
		return err
	})
}

// postgresReady reads what pg_ctl reads: line 1 of the pid file is the server's pid, line
// 8 its state.
func postgresReady(data string, pid int) error {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 8 || lines[0] != strconv.Itoa(pid) || strings.TrimSpace(lines[7]) != "ready" {
		return errors.New("postmaster.pid does not say ready yet")
	}
	return nil
}
