package fsys

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCgroupLimit(t *testing.T) {
	mounted := t.TempDir()
	limit := func(file, value string) {
		t.Helper()
		path := filepath.Join(mounted, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		put(t, path, value+"\n")
	}
	limit("user/one/deep/memory.max", "max")
	limit("user/one/memory.max", "3000")
	limit("user/memory.max", "max")
	limit("user/two/memory.max", "5000")
	limit("limited/memory.max", "2000")
	limit("limited/one/memory.max", "7000")
	limit("odd/memory.max", "some")
	limit("memory/old/memory.limit_in_bytes", "1000")
	limit("memory/old/one/memory.limit_in_bytes", "4000")
	limit("memory/memory.limit_in_bytes", "9223372036854771712")
	for _, c := range []struct {
		groups string
		want   int64
	}{
		{"", 0},
		{"0::/\n", 0},
		{"0::/user/one/deep\n", 3000},
		{"0::/user/two\n", 5000},
		{"0::/user/two", 5000},
		{"0::/user/three\n", 0},
		{"0::/limited/one\n", 2000},
		{"0::/limited/gone/deeper\n", 2000},
		{"0::/odd\n", 0},
		{"0::/../../limited\n", 2000}, // of a process outside the namespace
		{"4:memory:/old/one\n0::/\n", 1000},
		{"4:cpu,memory:/old/one\n", 1000},
		{"4:cpuset:/old/one\n", 0},
		{"4:memory:/docker/0123\n1:name=systemd:/limited\n", 9223372036854771712},
		{"4:memory:/old\n0::/limited\n", 1000},
		{"nonsense\n:\n\n", 0},
	} {
		require.Equal(t, c.want, cgroupLimit(c.groups, mounted), "%q", c.groups)
	}
}

// tellMemory makes the test program print Memory and end: in a group with a limit.
const tellMemory = "FSYS_TELL_MEMORY"

func TestMemoryUnderALimit(t *testing.T) {
	if os.Getenv(tellMemory) != "" {
		fmt.Printf("memory=%d\n", Memory())
		return
	}
	group := limitedGroup(t, 64<<20)
	var info unix.Sysinfo_t
	require.NoError(t, unix.Sysinfo(&info))
	if uint64(info.Totalram)*uint64(info.Unit) <= 64<<20 {
		t.Skip("the machine has less than the limit")
	}
	// The shell moves itself; what it becomes stays in the group.
	c := exec.Command("/bin/sh", "-c", `echo $$ > "$1/cgroup.procs" && exec "$2" -test.run "^$3\$" -test.v`, "sh",
		group, os.Args[0], t.Name())
	c.Env = append(os.Environ(), tellMemory+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "memory="+strconv.Itoa(64<<20)+"\n")
}

// limitedGroup makes a control group of either version, or skips the test.
func limitedGroup(t *testing.T, limit int) string {
	t.Helper()
	top, file := "/sys/fs/cgroup", "memory.max"
	if controllers, err := os.ReadFile(filepath.Join(top, "cgroup.subtree_control")); err != nil {
		top, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	} else if !strings.Contains(string(controllers), "memory") {
		t.Skip("no groups with limits of memory below ", top)
	}
	group, err := os.MkdirTemp(top, "fsys-test-")
	if err != nil {
		t.Skip("making a control group: ", err)
	}
	t.Cleanup(func() { require.NoError(t, os.Remove(group)) })
	if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.Itoa(limit)), 0); err != nil {
		t.Skip("limiting a control group: ", err)
	}
	return group
}
