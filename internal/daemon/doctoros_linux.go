package daemon

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// mountOf finds what dir lies on.
func mountOf(dir string) (mount, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return mount{}, err
	}
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return mount{}, err
	}
	defer table.Close()
	return mountIn(table, abs)
}

var errNoMount = errors.New("no mount has it")

// mountIn looks for the innermost mount of a table that path lies in: the last one of
// those with the longest place, since one may be mounted over another.
func mountIn(table io.Reader, path string) (found mount, err error) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// 36 35 98:0 /root /place rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue
		left, right, ok := strings.Cut(lines.Text(), " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if !ok || len(before) < 6 || len(after) < 1 {
			continue
		}
		m := mount{kind: after[0], root: unescape(before[3]), place: unescape(before[4]), options: strings.Split(before[5], ",")}
		if len(after) > 2 {
			m.options = append(m.options, strings.Split(after[2], ",")...)
		}
		if within(path, m.place) && len(m.place) >= len(found.place) {
			found = m
		}
	}
	if err := lines.Err(); err != nil {
		return mount{}, err
	}
	if found.place == "" {
		return mount{}, errNoMount
	}
	return found, nil
}

func within(path, place string) bool {
	return place == "/" || path == place || strings.HasPrefix(path, place+"/")
}

// unescape turns \040 and its like back into what they stand for.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// freeBytes is what a user without privileges may still write.
func freeBytes(dir string) (int64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}

// fileLimit is how many files the process may open.
func fileLimit() (uint64, bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return l.Cur, true
}
