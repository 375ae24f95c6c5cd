package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/internal/servers"
)

const mounts = `21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
22 21 0:20 / /dev/shm rw,nosuid shared:4 - tmpfs shm rw
23 21 8:1 /var/lib/kubelet/pods/0c/volumes/kubernetes.io~empty-dir/spool /spool rw,relatime - ext4 /dev/sda1 rw
24 21 0:50 / /share rw,relatime - nfs4 filer:/vol rw,vers=4.2,soft,proto=tcp
25 21 0:60 / /srv/with\040space rw - xfs /dev/sdb rw
26 21 0:61 / /data rw - ext4 /dev/sdc rw
27 26 0:62 / /data rw - overlay none rw,lowerdir=/a
`

func TestDoctorTellsDisksFromWhatIsNone(t *testing.T) {
	for path, want := range map[string]struct{ grade, holds string }{
		"/var/lib/tierlock": {gradeOK, "ext4 at /"},
		"/dev/shm/spool":    {gradeFail, "is memory"},
		"/dev/shmem":        {gradeOK, "ext4 at /"},
		"/spool":            {gradeWarn, "emptyDir"},
		"/share/spool":      {gradeWarn, "mounted soft"},
		"/srv/with space/a": {gradeOK, "xfs at /srv/with space"},
		"/data/spool":       {gradeWarn, "container's own layer"}, // the later of two mounts
	} {
		m, err := mountIn(strings.NewReader(mounts), path)
		if err != nil {
			t.Fatal(err)
		}
		e := examiner{group: "spool"}
		m.judge(&e)
		if c := e.found[0]; c.Grade != want.grade || !strings.Contains(c.Found, want.holds) {
			t.Errorf("%s: %+v", path, c)
		}
	}
	if m, err := mountIn(strings.NewReader("no table\n"), "/"); err == nil {
		t.Errorf("%+v", m)
	}
}

// TestDoctorRefusesASpoolInMemory: on the tmpfs that every Linux has.
func TestDoctorRefusesASpoolInMemory(t *testing.T) {
	servers.Need(t, "tmpfs at /dev/shm")
	dir, err := os.MkdirTemp("/dev/shm", "tierlock-doctor-*") //nolint:usetesting // the test's own folder is on a disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := examiner{group: "spool"}
	(&Config{Audit: AuditConfig{Dir: dir}}).doctorSpool(t.Context(), &e)
	wantCheck(t, e.found, "spool", "fail disk:", "tmpfs at /dev/shm is memory")
	wantCheck(t, e.found, "spool", "ok folder:", "nothing was recorded")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
}

// TestDoctorFindsAFolderThatTakesNothing: a place where no file can be made, and none where a
// folder could be.
func TestDoctorFindsAFolderThatTakesNothing(t *testing.T) {
	e := examiner{group: "spool"}
	judgeSync(t.Context(), &e, "/proc/self") // nobody may make a file there
	wantCheck(t, e.found, "spool", "fail sync:", "cannot be written and synced")
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	(&Config{Audit: AuditConfig{Dir: file + "/spool"}}).doctorSpool(t.Context(), &e)
	wantCheck(t, e.found, "spool", "fail folder:", "")
}
