package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/screentest"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestSignalsAtAnyInstant sends signals to copies that draw on a terminal. SEALIFT_SIGNALS
// is their number.
func TestSignalsAtAnyInstant(t *testing.T) {
	runs := 10
	if n, err := strconv.Atoi(os.Getenv("SEALIFT_SIGNALS")); err == nil {
		runs = n
	}
	dir := treetest.MemoryDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	tree := treetest.Dir{"large": treetest.File(string(treetest.Pattern(17<<20, 1)))}
	for i := range 50 {
		tree["f"+strconv.Itoa(i)] = treetest.File(string(treetest.Pattern(50_000, byte(i))))
	}
	treetest.Create(t, src, tree)
	for n := range runs {
		sig := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGKILL, syscall.SIGHUP}[n%5]
		ours, theirs := screentest.OpenPair(t, 80, 25)
		was, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sealift", "copy", "--bwlimit=100MB", src, dst) //nolint:gosec // ours
		cmd.Stdout, cmd.Stderr = theirs, theirs
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		drawn := make(chan string, 1)
		go func() {
			var all bytes.Buffer
			_, _ = io.Copy(&all, ours) // EIO when the other end is closed
			drawn <- all.String()
		}()
		time.Sleep(30*time.Millisecond + time.Duration(rand.Int64N(int64(300*time.Millisecond)))) //nolint:gosec // no secret
		if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its state is the result
		is, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
		if err != nil || *is != *was {
			t.Errorf("%v: the terminal was %+v and is %+v: %v", sig, was, is, err)
		}
		theirs.Close()
		text := <-drawn
		ours.Close()
		if err := syscall.Kill(-cmd.Process.Pid, 0); err != syscall.ESRCH {
			t.Errorf("%v: a process is left: %v", sig, err)
		}
		code, killed := cmd.ProcessState.ExitCode(), cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
		switch want := map[syscall.Signal]int{syscall.SIGHUP: 129, syscall.SIGINT: 130, syscall.SIGTERM: 143}[sig]; {
		case code == 0 || want != 0 && code == want:
			if !strings.HasSuffix(text, "\n") || strings.Contains(text, "\x1b[?25l") {
				t.Errorf("%v: the terminal is left with %q", sig, text)
			}
		case killed && sig == syscall.SIGKILL:
		case killed && text == "": // before it handled signals
			if _, err := os.Lstat(dst); err == nil {
				t.Errorf("%v: it was killed when it had begun", sig)
			}
		default:
			t.Errorf("%v: it ended with %v: %q", sig, cmd.ProcessState, text)
		}
		temporaries(t, dst, code != 0)
		if out, err := exec.Command("sealift", "copy", src, dst).CombinedOutput(); err != nil { //nolint:gosec // ours
			t.Fatalf("after %v: %v: %s", sig, err, out)
		}
		treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS"}})
		temporaries(t, dst, false)
		treetest.Remove(t, dst)
	}
}

// temporaries checks that dir has no names of Sealift. A stopped copy may leave the journal
// and a temporary of the long file.
func temporaries(t *testing.T, dir string, stopped bool) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	long := 0
	for _, e := range list {
		switch name := e.Name(); {
		case !strings.HasPrefix(name, ".sealift-"):
		case stopped && name == ".sealift-journal":
		case stopped && strings.HasSuffix(name, ".tmp") && long == 0:
			long++
		default:
			t.Errorf("%s is left", name)
		}
	}
}
