package fsys

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// disk is a file system on a loop device, whose reads are counted.
type disk struct {
	*Dir
	path  string // where it is mounted
	image string // the file behind the device
	loop  string // the device's name, "loop0"
}

// diskKinds are the file systems that the tests below know how to make.
var diskKinds = map[string]struct {
	mkfs    []string
	options string
	size    int64
}{
	"ext4":             {[]string{"mkfs.ext4", "-q", "-b", "4096"}, "", 64 << 20},
	"ext4, 1 KiB":      {[]string{"mkfs.ext4", "-q", "-b", "1024"}, "", 64 << 20},
	"ext4, inline":     {[]string{"mkfs.ext4", "-q", "-O", "inline_data", "-I", "1024"}, "", 64 << 20},
	"ext4, journalled": {[]string{"mkfs.ext4", "-q"}, "data=journal", 64 << 20},
	"xfs":              {[]string{"mkfs.xfs", "-q"}, "", 300 << 20},
	"btrfs":            {[]string{"mkfs.btrfs", "-q"}, "", 128 << 20},
	"btrfs, no sums":   {[]string{"mkfs.btrfs", "-q"}, "nodatasum", 128 << 20},
	"btrfs, zstd":      {[]string{"mkfs.btrfs", "-q"}, "compress-force=zstd", 128 << 20},
}

// command runs a program that a test cannot do without, or skips the test.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Skipf("%s %s: %v %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// newDisk makes and mounts one, or skips the test with the reason. in is where
// its image lies.
func newDisk(t *testing.T, kind, in string) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	k := diskKinds[kind]
	d := &disk{image: filepath.Join(in, "image"), path: filepath.Join(t.TempDir(), "mounted")}
	require.NoError(t, os.Mkdir(d.path, 0o755))
	require.NoError(t, os.WriteFile(d.image, nil, 0o600))
	require.NoError(t, os.Truncate(d.image, k.size))
	// mkfs.btrfs fails if it sees a mount whose device has died.
	command(t, "../../scripts/apart", append(k.mkfs, d.image)...)
	device := command(t, "losetup", "-f", "--show", d.image)
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	d.loop = filepath.Base(device)
	args := []string{device, d.path}
	if k.options != "" {
		args = append(args, "-o", k.options)
	}
	command(t, "mount", args...)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", d.path).CombinedOutput(); err != nil {
			_ = exec.Command("umount", "-l", d.path).Run()
			t.Errorf("umount: %v %s", err, out)
		}
	})
	require.NoError(t, os.Chmod(d.path, 0o755))
	var err error
	d.Dir, err = newFS().OpenRoot(d.path)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// bytesRead returns how much has been read from the device.
func (d *disk) bytesRead(t *testing.T) int64 {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/sys/block", d.loop, "stat"))
	require.NoError(t, err)
	sectors, err := strconv.ParseInt(strings.Fields(string(stat))[2], 10, 64) // Documentation/block/stat.rst
	require.NoError(t, err)
	return sectors * 512
}

// costs returns how much f reads from the device.
func (d *disk) costs(t *testing.T, f func()) int64 {
	t.Helper()
	before := d.bytesRead(t)
	f()
	return d.bytesRead(t) - before
}

// cachedCosts is costs for data in memory, for an f that can be repeated. After a few tries,
// other programs such as udev have finished reading the new device.
func (d *disk) cachedCosts(t *testing.T, f func()) int64 {
	t.Helper()
	least := d.costs(t, f)
	for try := 0; try < 5 && least > 0; try++ {
		time.Sleep(10 * time.Millisecond)
		least = min(least, d.costs(t, f))
	}
	return least
}

// file writes a file, which is dirty until it is synced, and opens it for reading.
func (d *disk) file(t *testing.T, name string, content []byte) *File {
	t.Helper()
	put(t, filepath.Join(d.path, name), string(content))
	f, _, err := d.Open(name)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

func dropped(t *testing.T, f *File) bool {
	t.Helper()
	fromDevice, err := f.DropCache()
	require.NoError(t, err)
	return fromDevice
}

// withoutCachestat runs f as under a kernel before Linux 6.5.
func (d *disk) withoutCachestat(f func()) {
	defer func() { d.calls().cachestat = system.cachestat }()
	d.calls().cachestat = func(uint, *unix.CachestatRange, *unix.Cachestat_t, uint) error { return unix.ENOSYS }
	f()
}

// unixRelease returns the kernel's version, 601 for 6.1.
func unixRelease(t *testing.T) int {
	t.Helper()
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	require.NoError(t, err)
	return 100*major + minor
}

// overwrite replaces the block old on the device, beneath the file system.
func (d *disk) overwrite(t *testing.T, old, with []byte) {
	t.Helper()
	dir, err := OpenRoot(filepath.Dir(d.image))
	require.NoError(t, err)
	defer dir.Close()
	image, info, err := dir.Open(filepath.Base(d.image))
	require.NoError(t, err)
	defer image.Close()
	w, err := os.OpenFile(d.image, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer w.Close()
	found := 0
	block := make([]byte, len(old))
	for off := int64(0); off < info.Size; {
		data, hole, end, err := image.NextData(off)
		require.NoError(t, err)
		if end {
			break
		}
		for off = data &^ 4095; off < hole; off += int64(len(block)) {
			n, err := image.ReadAt(block, off)
			require.NoError(t, err)
			if bytes.Equal(block[:n], old) {
				_, err = w.WriteAt(with, off)
				require.NoError(t, err)
				found++
			}
		}
	}
	require.Equal(t, 1, found, "copies on the device")
}

// mountOn mounts a file system without a device, or skips the test.
func mountOn(t *testing.T, args ...string) (*Dir, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	path := t.TempDir()
	command(t, "mount", append(args, path)...)
	t.Cleanup(func() { _ = exec.Command("umount", path).Run() })
	d, err := OpenRoot(path)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d, path
}
