package fsys

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestReadsComeFromTheDevice(t *testing.T) {
	for _, kind := range []string{"ext4", "ext4, 1 KiB", "xfs", "btrfs", "btrfs, zstd"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			require.True(t, d.DeviceBacked())
			sizes := []int{4000, 4096, 4097, 100_000, 1<<20 + 1}
			if kind == "ext4" || os.Getenv("SEALIFT_LARGE") == "1" { // treetest imports this package
				sizes = append(sizes, mincoreWindow+5000)
			}
			for i, size := range sizes {
				want := noise(uint64(i), size)
				f := d.file(t, "f", want)
				require.True(t, f.DeviceBacked())
				same := func() { require.True(t, bytes.Equal(want, readAll(t, f, 128<<10))) }
				read := func() int64 { return d.costs(t, same) }
				again := func() int64 { return d.cachedCosts(t, same) }
				least := int64(size)
				require.NoError(t, f.Sync())
				require.Less(t, again(), least, "%d bytes, not dropped", size)
				for _, look := range []func(func()){func(f func()) { f() }, d.withoutCachestat} {
					look(func() { require.True(t, dropped(t, f), "%d bytes", size) })
					require.GreaterOrEqual(t, read(), least, "%d bytes, dropped", size)
					require.Less(t, again(), least, "%d bytes, in the cache again", size)
				}
				fromDevice, err := f.SetDirect(true)
				require.NoError(t, err)
				if strings.HasPrefix(kind, "btrfs") {
					require.False(t, fromDevice, "compressed extents are read through the cache")
				} else if unixRelease(t) >= 601 {
					require.True(t, fromDevice)
				}
				require.GreaterOrEqual(t, read(), least, "%d bytes, direct", size)
				require.GreaterOrEqual(t, read(), least, "%d bytes, direct once more", size)
				_, err = f.SetDirect(false)
				require.NoError(t, err)
				require.Less(t, again(), least, "%d bytes, no longer direct", size)
			}
		})
	}
}

// The page cache keeps the good content while the device gets another.
func TestCorruptionBeneathThePageCache(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs", "btrfs, no sums"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			good := noise(1, 1<<20+1)
			f := d.file(t, "f", good)
			require.NoError(t, f.Sync())
			bad := bytes.Clone(good)
			copy(bad[512<<10:], bytes.Repeat([]byte("bad"), 100))
			d.overwrite(t, good[512<<10:][:4096], bad[512<<10:][:4096])

			require.True(t, bytes.Equal(good, readAll(t, f, 128<<10)), "a cached read proves nothing")
			_, err := f.SetDirect(true)
			require.NoError(t, err)
			require.True(t, bytes.Equal(bad, readAll(t, f, 128<<10)), "a direct read sees it")
			_, err = f.SetDirect(false)
			require.NoError(t, err)
			require.True(t, bytes.Equal(good, readAll(t, f, 128<<10)), "the page cache has it still")
			require.True(t, dropped(t, f))
			require.True(t, bytes.Equal(bad, readAll(t, f, 128<<10)), "after dropping, a cached read sees it")
		})
	}
}

func TestDropCacheOfUnwrittenData(t *testing.T) {
	for _, kind := range []string{"ext4", "ext4, 1 KiB", "xfs", "btrfs", "btrfs, zstd"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			drop := func() {
				for i := range 200 {
					want := noise(uint64(i), 4097+i*101)
					f := d.file(t, strconv.Itoa(i), want)
					require.True(t, dropped(t, f), "file %d", i)
					cost := d.costs(t, func() { require.True(t, bytes.Equal(want, readAll(t, f, 128<<10))) })
					require.GreaterOrEqual(t, cost, int64(len(want)))
				}
			}
			drop()
			d.withoutCachestat(drop)
		})
	}
}

func TestDropCacheReportsErrorsOfWriting(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	small := t.TempDir()
	command(t, "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", small)
	t.Cleanup(func() { unmountWhenFree(t, small) })
	d := newDisk(t, "ext4", small) // whose device is full before it is
	_, err := d.file(t, "f", noise(1, 24<<20)).DropCache()
	require.True(t, err == unix.EIO || err == unix.ENOSPC, "%v", err)
}

// unmountWhenFree unmounts path. It tries again for some seconds, because a loop device detaches from
// its file some time after losetup has ended.
func unmountWhenFree(t *testing.T, path string) {
	t.Helper()
	var out []byte
	for range 100 {
		var err error
		if out, err = exec.Command("umount", path).CombinedOutput(); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	_ = exec.Command("umount", "-l", path).Run()
	t.Errorf("umount: %s", out)
}

func TestDropCacheOfAMappedFile(t *testing.T) {
	d := newDisk(t, "ext4", t.TempDir())
	const last = 2 * mincoreWindow // in the third window that mincore reads
	f := d.file(t, "f", noise(1, last+100))
	for _, look := range []func(func()){func(f func()) { f() }, d.withoutCachestat} {
		look(func() {
			require.True(t, dropped(t, f))
			m, err := unix.Mmap(f.fd, last, 100, unix.PROT_READ, unix.MAP_SHARED)
			require.NoError(t, err)
			equal := bytes.Equal(noise(1, last+100)[last:], m) // which takes the page into the mapping
			fromDevice, err := f.DropCache()
			require.NoError(t, unix.Munmap(m))
			require.NoError(t, err)
			require.True(t, equal)
			require.False(t, fromDevice)
			require.True(t, dropped(t, f))
		})
	}
}

// Data in metadata is cached with it: what is read next comes from there.
func TestInlineDataIsNotFromTheDevice(t *testing.T) {
	for _, kind := range []string{"ext4, inline", "btrfs", "btrfs, zstd"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			f := d.file(t, "f", noise(1, 100))
			require.False(t, dropped(t, f))
			require.False(t, f.resident(), "dropped it is")
			cost := d.cachedCosts(t, func() {
				f.dontNeed(0, 0)
				require.Len(t, readAll(t, f, 4096), 100)
			})
			require.Zero(t, cost)
			fromDevice, err := f.SetDirect(true)
			if !Unsupported(err) {
				require.NoError(t, err)
			}
			require.False(t, fromDevice)
			cost = d.cachedCosts(t, func() {
				f.dontNeed(0, 0)
				require.Len(t, readAll(t, f, 4096), 100)
			})
			require.Zero(t, cost)

			empty := d.file(t, "empty", nil)
			require.True(t, dropped(t, empty))
			hole := d.file(t, "hole", nil)
			require.NoError(t, os.Truncate(filepath.Join(d.path, "hole"), 8192))
			require.True(t, dropped(t, hole))
		})
	}
}

// ext4 keeps journalled data in memory until the journal is emptied.
func TestJournalledDataIsNotPromised(t *testing.T) {
	d := newDisk(t, "ext4, journalled", t.TempDir())
	want := noise(1, 1<<20)
	f := d.file(t, "f", want)
	fromDevice := dropped(t, f)
	cost := d.costs(t, func() { require.True(t, bytes.Equal(want, readAll(t, f, 128<<10))) })
	require.True(t, !fromDevice || cost >= int64(len(want)), "%d bytes read", cost)
	_, err := f.SetDirect(true)
	if unixRelease(t) >= 601 {
		require.True(t, Unsupported(err), "%v", err)
	}
}

func TestDirectOnEveryFileSystem(t *testing.T) {
	for kind := range diskKinds {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			testDirect(t, d.Dir, d.path)
		})
	}
}

// elsewhereHolds checks a file system of which nothing is promised.
func elsewhereHolds(t *testing.T, d *Dir, path string) {
	t.Helper()
	require.False(t, d.DeviceBacked())
	put(t, filepath.Join(path, "f"), string(noise(1, 10_000)))
	f, _, err := d.Open("f")
	require.NoError(t, err)
	defer f.Close()
	require.False(t, f.DeviceBacked())
	require.False(t, dropped(t, f))
	fromDevice, err := f.SetDirect(true)
	if !Unsupported(err) {
		require.NoError(t, err)
	}
	require.False(t, fromDevice)
	testDirect(t, d, path)
}

func TestTmpfsHasNoDevice(t *testing.T) {
	d, path := mountOn(t, "-t", "tmpfs", "tmpfs")
	elsewhereHolds(t, d, path)
}

// The pages of a file on overlay belong to the file of the layer, so that
// cachestat sees none: only not asking it is honest.
func TestOverlayPromisesNothing(t *testing.T) {
	layers := newDisk(t, "ext4", t.TempDir())
	for _, name := range []string{"lower", "upper", "work"} {
		require.NoError(t, layers.Mkdir(name))
	}
	at := func(name string) string { return filepath.Join(layers.path, name) }
	d, path := mountOn(t, "-t", "overlay", "-o",
		"lowerdir="+at("lower")+",upperdir="+at("upper")+",workdir="+at("work"), "overlay")
	elsewhereHolds(t, d, path)
}

// Overlay takes O_DIRECT even if no layer can do it, and refuses to read.
func TestDirectOnOverlayOfLayersWithout(t *testing.T) {
	_, lower := mountOn(t, "-t", "ramfs", "ramfs")
	put(t, filepath.Join(lower, "f"), "content")
	d, _ := mountOn(t, "-t", "overlay", "-o", "lowerdir="+lower+":"+t.TempDir(), "overlay")
	f, _, err := d.Open("f")
	require.NoError(t, err)
	defer f.Close()
	_, err = f.SetDirect(true)
	require.True(t, Unsupported(err), "%v", err)
	require.Equal(t, "content", string(readAll(t, f, 4096)))
}

func TestFuseHasACacheOfItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 64<<20))
	command(t, "mkfs.exfat", image)
	device := command(t, "losetup", "-f", "--show", image)
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	path := t.TempDir()
	command(t, "mount.exfat-fuse", device, path)
	t.Cleanup(func() { _ = exec.Command("umount", path).Run() })
	d, err := OpenRoot(path)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	elsewhereHolds(t, d, path)
}

// The kernel does not tell strangers what is in memory, but it drops it for them.
func TestDropCacheOfAFileOfAnotherUser(t *testing.T) {
	d := newDisk(t, "ext4", t.TempDir())
	want := noise(1, 100_000)
	put(t, filepath.Join(d.path, "theirs"), string(want))
	put(t, filepath.Join(d.path, "ours"), string(want))
	const otherUser = 65534
	require.NoError(t, os.Chown(filepath.Join(d.path, "ours"), otherUser, otherUser))
	require.NoError(t, d.SyncFS())

	asOtherUser(t, otherUser, func() {
		_, err := os.OpenFile(filepath.Join(d.path, "theirs"), os.O_WRONLY, 0)
		require.ErrorIs(t, err, os.ErrPermission, "or this tests nothing")
		f, _, err := d.Open("theirs")
		require.NoError(t, err)
		defer f.Close()
		for _, look := range []func(func()){func(f func()) { f() }, d.withoutCachestat} {
			look(func() {
				if dropped(t, f) {
					require.Less(t, unixRelease(t), 614, "reported nevertheless")
				}
			})
			cost := d.costs(t, func() { require.True(t, bytes.Equal(want, readAll(t, f, 128<<10))) })
			require.GreaterOrEqual(t, cost, int64(len(want)), "dropped it is")
		}
		fromDevice, err := f.SetDirect(true)
		require.NoError(t, err)
		if unixRelease(t) >= 601 {
			require.True(t, fromDevice, "this it may know")
		}
		cost := d.costs(t, func() { require.True(t, bytes.Equal(want, readAll(t, f, 128<<10))) })
		require.GreaterOrEqual(t, cost, int64(len(want)))

		ours, _, err := d.Open("ours")
		require.NoError(t, err)
		defer ours.Close()
		require.True(t, dropped(t, ours))
		d.withoutCachestat(func() { require.True(t, dropped(t, ours)) })
	})
}

// asOtherUser runs f in a thread that has another user's rights to files
// (setfsuid is a thread's own), which ends with it.
func asOtherUser(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good
		_, err := unix.SetfsuidRetUid(uid)
		if err == nil {
			_, err = unix.SetfsgidRetGid(uid)
		}
		if err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

func TestDropCacheBehind(t *testing.T) {
	d := newDisk(t, "xfs", t.TempDir())
	const window = 4 << 20
	f := d.file(t, "f", noise(1, 3*window+100))
	require.True(t, dropped(t, f))
	cached := func(off, n uint64) uint64 {
		t.Helper()
		var st unix.Cachestat_t
		if err := unix.Cachestat(uint(f.fd), &unix.CachestatRange{Off: off, Len: n}, &st, 0); err != nil {
			t.Skip("cachestat: ", err)
		}
		return st.Cache
	}
	require.Len(t, readAll(t, f, 128<<10), 3*window+100)
	require.NotZero(t, cached(0, window))
	f.DropCacheBehind(0, window)
	require.Zero(t, cached(0, window))
	require.NotZero(t, cached(window, window), "not beyond")
	f.DropCacheBehind(window, 0)
	require.NotZero(t, cached(window, window), "nothing is nothing")
	f.DropCacheBehind(window, 2*window+100)
	require.Zero(t, cached(0, 0), "the last page too")
}
