//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPowerCut cuts the power of disks that are copied to.
func TestPowerCut(t *testing.T) { runRig(t, "power-cut") }

// TestSlowDisk looks at what waits in memory for a slow disk, and at what is left
// in the page cache.
func TestSlowDisk(t *testing.T) { runRig(t, "slow-disk") }

// TestBadDisk copies from and to disks that fail.
func TestBadDisk(t *testing.T) { runRig(t, "bad-disk") }

// TestDuCompare holds du to that of GNU, on a file system that takes no time.
func TestDuCompare(t *testing.T) { runRig(t, "du-compare", "tmpfs") }

// TestFileSystems copies to those of external disks and networks.
func TestFileSystems(t *testing.T) { runRig(t, "file-systems") }

// TestTorture lets some system calls fail, others each time.
func TestTorture(t *testing.T) { runRig(t, "torture") }

// TestProcessors does the same with builds for other processors.
func TestProcessors(t *testing.T) { runRig(t, "processors") }

// TestWindows runs the Windows build under Wine.
func TestWindows(t *testing.T) { runRig(t, "wine") }

// TestBench lets every kind of measurement happen once, with little data; what it
// takes is not looked at.
func TestBench(t *testing.T) {
	out := runRig(t, "bench", "--quick", "--peers=cp,openssl", "--fs=tmpfs,ext4,btrfs", "many", "none", "clones", "check", "walk", "cache", "uneven")
	for _, table := range []string{"many, tmpfs:", "none one, tmpfs:", "check eight, tmpfs:", "walk, tmpfs:", "goal: the time of"} {
		if !strings.Contains(out, table) {
			t.Errorf("%q is missing", table)
		}
	}
}

// lacking is the exit code of a rig that cannot work here.
const lacking = 77

// runRig runs one of scripts with this program, in its short form, and returns what
// it prints.
func runRig(t *testing.T, name string, args ...string) string {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	program, err := exec.LookPath("sealift") // this program again, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "scripts", name), args...) //nolint:gosec // ours
	// The race detector sleeps before it exits, and the cut is to come at once.
	cmd.Env = append(os.Environ(), "SHORT=1", "SEALIFT="+program, "GORACE=atexit_sleep_ms=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it unmounts what it has mounted
	cmd.WaitDelay = time.Minute
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == lacking {
		t.Skip(strings.TrimSpace(complaints.String()))
	}
	t.Logf("%s%s", out.Bytes(), complaints.Bytes())
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return out.String()
}
