package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// slowDisk mounts an ext4 on dir whose device writes the given number of bits per second. nbdkit
// holds the data in memory, nbdfuse makes it a file, and losetup makes that a block device.
func slowDisk(t *testing.T, dir string, bitsPerSecond int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a slow disk takes root")
	}
	for _, tool := range []string{"nbdkit", "nbdfuse", "losetup", "mkfs.ext4", "fusermount3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("a slow disk needs ", tool)
		}
	}
	work, err := os.MkdirTemp("/dev/shm", "sealift-slow")
	require.NoError(t, err)
	t.Cleanup(func() { treetest.Remove(t, work) })
	socket, export := filepath.Join(work, "socket"), filepath.Join(work, "fuse")
	require.NoError(t, os.Mkdir(export, 0o700))
	serve := func(ready string, args ...string) {
		cmd := exec.Command(args[0], args[1:]...) //nolint:gosec // ours
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, 20*time.Second, 20*time.Millisecond, args[0])
	}
	serve(socket, "nbdkit", "--foreground", "--unix", socket, "--filter=rate", "memory", "256M", fmt.Sprint("rate=", bitsPerSecond), "burstiness=0.1")
	disk := filepath.Join(export, "disk")
	serve(disk, "nbdfuse", disk, "nbd+unix:///?socket="+socket)
	t.Cleanup(func() { _ = exec.Command("fusermount3", "-uz", export).Run() })
	run := func(args ...string) string {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput() //nolint:gosec // ours
		if err != nil {
			t.Skipf("no slow disk here: %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	loop := run("losetup", "--find", "--show", "--direct-io=on", disk)
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", loop).Run() })
	run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", "-O", "^has_journal", loop)
	require.NoError(t, os.Mkdir(dir, 0o700))
	run("mount", loop, dir)
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

// One of two disks writes 6 MB/s; the other one is in memory. The view names the disk that limits
// the copy, and shows its unwritten data.
func TestScreensOfDisksOfDifferentSpeed(t *testing.T) {
	enter(t, treetest.Dir{"card": treetest.Dir{
		"A001_0001.mov": treetest.File(string(treetest.Pattern(70_000_000, 1))),
		"notes.txt":     treetest.File("Reel 1\n"),
	}, "short": treetest.Dir{"A002_0001.mov": treetest.File(string(treetest.Pattern(25_000_000, 2)))}})
	slowDisk(t, "slow", 48_000_000)
	s := begin(t, 80, 24, nil, "copy --workers 2 card fast -o slow/copy")
	text := s.await(`limited by this disk\n`)
	moving := regexp.MustCompile(`[█░]+| +[0-9]+%| *[0-9.]+ [kM]?B(/| unw)`)
	compareScreen(t, "two-disks", moving.ReplaceAllStringFunc(text+"\n", func(text string) string {
		switch {
		case strings.HasSuffix(text, "%"):
			return fmt.Sprintf("%*s", len(text), "#%")
		case strings.ContainsAny(text, "█░"):
			return strings.Repeat("▒", strings.Count(text, "")-1)
		}
		_, unit, _ := strings.Cut(strings.TrimLeft(text, " "), "B")
		return fmt.Sprintf("%*s", len(text), "# B"+unit)
	}))
	s.end(0)
	require.Regexp(t, `limited by +(the )?(destination )?'slow/copy'`, strings.Join(s.Lines(), "\n"))

	// Everything fits the window, so the end of the copy waits for the disk, and has its rate.
	s = begin(t, 80, 24, nil, "copy --dirty-window 100MB short fast2 -o slow/copy2")
	s.await(`flushing +[0-9]+% (.|\n)*'slow/copy2' +[0-9.]+ MB/s +[0-9.]+ MB unwritten`)
	s.end(0)
}
