package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// loopDisk mounts a fresh ext4 on a loop device, or skips the test with the
// reason. read returns how many bytes have been read from the device.
func loopDisk(t *testing.T) (path string, read func() int64) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	command := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Skipf("%s %s: %v %s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 48<<20))
	command("mkfs.ext4", "-q", "-b", "4096", image)
	device := command("losetup", "-f", "--show", image)
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	path = filepath.Join(t.TempDir(), "mounted")
	require.NoError(t, os.Mkdir(path, 0o755))
	command("mount", device, path)
	t.Cleanup(func() {
		out, err := exec.Command("umount", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	return path, func() int64 {
		stat, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "stat"))
		require.NoError(t, err)
		sectors, err := strconv.ParseInt(strings.Fields(string(stat))[2], 10, 64) // Documentation/block/stat.rst
		require.NoError(t, err)
		return sectors * 512
	}
}

// The read-back comes from the device, although the file is still in memory. The second read
// of the source does, too.
func TestVerifyReadsTheDevice(t *testing.T) {
	disk, read := loopDisk(t)
	memory := filepath.Join(treetest.MemoryDir(t), "src")
	sizes := map[string]int{"a": 100, "b": 4096, "c": 4097, "d/e": 128 << 10, "d/f": 1<<20 + 5, "g": 9<<20 + 1}
	data := int64(0)
	for name, size := range sizes {
		write(t, memory, name, treetest.Pattern(size, byte(size)), since)
		data += int64(size)
	}
	var during int64
	run := func(mode VerifyMode, sync dest.SyncMode, source, target string) TargetSummary {
		c := &counters.Set{}
		begun := int64(-1)
		sys := faultfs.New(func(fsys.Op, string) error {
			if begun < 0 && counters.Phase(c.Phase.Load()) == counters.PhaseVerifying {
				begun = read()
			}
			return nil
		})
		o := verifying(mode, source, target)
		o.Sync, o.BlockSize, o.Memory, o.Workers = sync, 128<<10, 4<<20, 1
		o.FS = sys
		out := runCounted(t, o, c)
		require.Empty(t, out.bad())
		require.Equal(t, mode != VerifyOff, begun >= 0)
		during = read() - max(begun, 0)
		return out.summary.Targets[0]
	}
	copied := filepath.Join(disk, "copied")
	idle := read()
	run(VerifyOff, dest.SyncEnd, memory, copied)
	require.Less(t, read()-idle, data/2, "or this tests nothing: it is in memory")
	for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile, dest.SyncNone} {
		for range 2 { // copied, skipped
			s := run(VerifyDest, sync, memory, filepath.Join(disk, sync.String()))
			require.EqualValues(t, len(sizes), s.Verified)
			require.Zero(t, s.Cached)
			require.GreaterOrEqual(t, during, data, sync)
		}
		require.NoError(t, os.RemoveAll(filepath.Join(disk, sync.String())))
	}
	s := run(VerifyFull, dest.SyncEnd, copied, filepath.Join(disk, "full"))
	require.Zero(t, s.Cached)
	require.GreaterOrEqual(t, during, 2*data)

	inMemory := filepath.Join(filepath.Dir(memory), "dst")
	s = run(VerifyFull, dest.SyncEnd, copied, inMemory)
	require.EqualValues(t, len(sizes), s.Cached, "the destination's, that is; no device is behind it")
	require.Equal(t, s.Verified, s.Cached)
	require.GreaterOrEqual(t, during, data, "the source's device")
}
