//go:build linux

package rigs

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

// Each test runs one of scripts/; the head of the script describes it. By default the test
// runs a short form. With SEALIFT_RIGS=long, which make torture sets, it runs the complete
// rig.

// A manifest or journal never lists data that a power cut destroyed, and the same command
// completes the copy. The short form leaves out, on each file system: most instants, copies
// over an old tree and after an earlier cut, --sync=file, and signals.
func TestPowerCutLosesNothingListed(t *testing.T) { runRig(t, "power-cut") }

// Little data waits in memory for a slow disk, and little stays in the page cache. The
// short form leaves out small files, two disks, other tools, and limits of memory.
func TestSlowDiskIsNotFloodedWithWrites(t *testing.T) { runRig(t, "slow-disk") }

// Failures of a disk are reported, and no wrong content is listed. The short form leaves
// out xfs and btrfs, --sync=file, flushes that fail, lazy unmounts, and disks that stall.
func TestBadDiskIsReported(t *testing.T) { runRig(t, "bad-disk") }

// Sealift's du prints the same as GNU du. The short form leaves out all file systems except
// tmpfs, three quarters of the combinations of flags, and a directory of 110,000 entries.
func TestDuPrintsWhatGNUDuPrints(t *testing.T) {
	if long() {
		runRig(t, "du-compare")
	} else {
		runRig(t, "du-compare", "tmpfs")
	}
}

// File systems of external disks and networks hold the metadata that they support, and
// Sealift reports the rest. The short form leaves out most of the kinds: see
// scripts/file-systems.
func TestForeignFileSystemsGetWhatTheyCanHold(t *testing.T) { runRig(t, "file-systems") }

// If any system call fails, Sealift reports it, and the same command completes the copy.
// The short form draws 60 of 40,000 failures, others each time; the long one 10,000.
func TestAnySystemCallMayFail(t *testing.T) { runRig(t, "torture") }

// Builds for other processors make the same trees and continue each other's copies. The
// short form has one processor of 32 bits, 386, and one with the opposite byte order,
// ppc64. It leaves out arm, arm64 and riscv64.
func TestOtherProcessorsMakeTheSameCopies(t *testing.T) { runRig(t, "processors") }

// The tests of the Windows build pass under Wine, and so do complete copies. The short form has
// the tests of few packages, without the slow ones, and a handful of those of the engine.
func TestWindowsBuildUnderWine(t *testing.T) { runRig(t, "wine") }

// A real Slurm runs the script that plan --script prints, and killed tasks lose nothing.
// The short form leaves out 200,000 files, daemons that are killed, and tasks that hang.
func TestSlurmMakesTheSameCopy(t *testing.T) { runRig(t, "slurm") }

// The commands of the printed Jobs work with the volumes of their pods. There is no short form.
func TestPodsMakeTheSameCopy(t *testing.T) { runRig(t, "kubernetes") }

// The container image has the program and its licence only. It works on a read-only root, as a
// user without rights. There is no short form.
func TestImageRunsWithoutRights(t *testing.T) { runRig(t, "image") }

// Each kind of measurement of the bench works; the test does not check the times. The short
// form leaves out all file systems except tmpfs, and measurements that need devices.
func TestBenchMeasures(t *testing.T) {
	fs, works := "tmpfs", []string{"many", "walk"}
	tables := []string{"many, tmpfs:", "walk, tmpfs:", "goal: the time of"}
	if long() {
		fs, works = "tmpfs,ext4,btrfs", []string{"many", "none", "clones", "check", "walk", "cache", "cold", "uneven"}
		tables = append(tables, "none one, tmpfs:", "check eight, tmpfs:", "clones many, btrfs:", "cache one, ext4:", "cold many, ext4:", "uneven, ext4:")
	}
	out := runRig(t, "bench", append([]string{"--quick", "--peers=cp,openssl", "--fs=" + fs}, works...)...)
	for _, table := range tables {
		if !strings.Contains(out, table) {
			t.Errorf("%q is missing", table)
		}
	}
}

// long reports whether the tests run the complete rigs.
func long() bool { return os.Getenv("SEALIFT_RIGS") == "long" }

// lacking is the exit code of a rig that cannot work here.
const lacking = 77

// runRig runs one of scripts with the program and returns what it prints.
func runRig(t *testing.T, name string, args ...string) string {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(repository, "scripts", name), args...) //nolint:gosec // ours
	cmd.Env = append(os.Environ(), "SEALIFT="+program(t))
	if !long() {
		cmd.Env = append(cmd.Env, "SHORT=1")
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it unmounts what it has mounted
	cmd.WaitDelay = time.Minute
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == lacking {
		t.Skip(strings.TrimSpace(complaints.String()))
	}
	t.Logf("%s%s", out.Bytes(), complaints.Bytes())
	if state := cmd.ProcessState; state != nil {
		t.Logf("%v of processor time", (state.UserTime() + state.SystemTime()).Round(time.Second/10))
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return out.String()
}
