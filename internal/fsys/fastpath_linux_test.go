package fsys

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// free returns how many bytes are free, when all is written.
func free(t *testing.T, d *Dir) int64 {
	t.Helper()
	require.NoError(t, d.SyncFS())
	var st unix.Statfs_t
	require.NoError(t, unix.Fstatfs(d.fd, &st))
	return int64(st.Bfree) * int64(st.Bsize) //nolint:unconvert // 32 bits elsewhere
}

// namesNow lists anew: on btrfs a directory's first listing shows what was there
// when it was opened.
func namesNow(t *testing.T, d *Dir) []string {
	t.Helper()
	again, err := d.OpenDir(".")
	require.NoError(t, err)
	defer again.Close()
	return names(t, again)
}

func TestCloneSharesTheBlocks(t *testing.T) {
	const size = 8<<20 + 123
	for _, kind := range []string{"xfs", "btrfs", "btrfs, no sums", "btrfs, zstd"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind, t.TempDir())
			data := noise(1, size)
			src := d.file(t, "f", data) // not yet written to the device
			for _, named := range []bool{false, true} {
				before := free(t, d.Dir)
				p, err := d.CreateClone(src, named)
				require.NoError(t, err)
				require.Less(t, before-free(t, d.Dir), int64(4<<20), "of 8 MiB")
				const shared = 0x2000 // FIEMAP_EXTENT_SHARED
				flags, err := p.firstExtent()
				require.NoError(t, err)
				require.NotZero(t, flags&shared, "%#x", flags)
				require.NoError(t, p.WriteAt([]byte("other"), 1<<20))
				require.NoError(t, p.Commit("clone"))
				want := append([]byte(nil), data...)
				copy(want[1<<20:], "other")
				require.True(t, string(want) == contentOf(t, d.Dir, "clone"))
				require.True(t, string(data) == contentOf(t, d.Dir, "f"))
				require.NoError(t, d.Remove("clone"))
			}
			for _, content := range []string{"", "few bytes, which btrfs keeps in metadata"} {
				put(t, filepath.Join(d.path, "few"), content)
				p, err := d.CreateClone(openFile(t, d.Dir, "few"), false)
				require.NoError(t, err)
				require.NoError(t, p.CommitReplacing("clone"))
				require.Equal(t, content, contentOf(t, d.Dir, "clone"))
			}
			require.NoError(t, d.Remove("clone"))
			put(t, filepath.Join(d.path, "theirs"), "content")
			require.NoError(t, os.Chmod(filepath.Join(d.path, "theirs"), 0o6777))
			require.NoError(t, unix.Setxattr(filepath.Join(d.path, "theirs"), "user.note", []byte("x"), 0))
			require.NoError(t, os.Chtimes(filepath.Join(d.path, "theirs"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
			cloneIsAsANewFile(t, d.Dir, "theirs", "content", false)
			cloneIsAsANewFile(t, d.Dir, "theirs", "content", true)
			require.Equal(t, []string{"f", "few", "theirs"}, namesNow(t, d.Dir))
		})
	}
}

func TestCloneRefused(t *testing.T) {
	refusedBy := func(t *testing.T, d *Dir, src *File, reach Refusal) {
		t.Helper()
		before := namesNow(t, d)
		for _, named := range []bool{false, true} {
			p, err := d.CreateClone(src, named)
			require.Nil(t, p)
			require.Equal(t, reach, RefusalOf(err), "%v", err)
			require.Equal(t, before, namesNow(t, d))
		}
	}
	xfs := newDisk(t, "xfs", t.TempDir())
	ext4 := newDisk(t, "ext4", t.TempDir())
	btrfs := newDisk(t, "btrfs", t.TempDir())
	tmpfs, tmpfsPath := mountOn(t, "-t", "tmpfs", "tmpfs")
	data := noise(1, 100_000)
	onXFS, onExt4, onBtrfs := xfs.file(t, "f", data), ext4.file(t, "f", data), btrfs.file(t, "f", data)
	put(t, filepath.Join(tmpfsPath, "f"), string(data))

	refusedBy(t, ext4.Dir, onExt4, RefusedPair)
	refusedBy(t, tmpfs, openFile(t, tmpfs, "f"), RefusedPair)
	refusedBy(t, btrfs.Dir, onXFS, RefusedPair)
	refusedBy(t, xfs.Dir, onBtrfs, RefusedPair)
	refusedBy(t, newDisk(t, "xfs", t.TempDir()).Dir, onXFS, RefusedPair)
	refusedBy(t, tmpfs, onXFS, RefusedPair)

	t.Run("one file only", func(t *testing.T) {
		put(t, filepath.Join(btrfs.path, "no sums"), "")
		command(t, "chattr", "+C", filepath.Join(btrfs.path, "no sums"))
		put(t, filepath.Join(btrfs.path, "no sums"), string(data))
		refusedBy(t, btrfs.Dir, openFile(t, btrfs.Dir, "no sums"), RefusedFile)
		p, err := btrfs.CreateClone(onBtrfs, false)
		require.NoError(t, err)
		p.Abort()
	})
	t.Run("two subvolumes", func(t *testing.T) {
		command(t, "btrfs", "subvolume", "create", filepath.Join(btrfs.path, "sub"))
		sub, err := btrfs.OpenDir("sub")
		require.NoError(t, err)
		defer sub.Close()
		p, err := sub.CreateClone(onBtrfs, false)
		require.NoError(t, err, "they have different device numbers")
		require.NoError(t, p.Commit("clone"))
		require.True(t, string(data) == contentOf(t, sub, "clone"))
	})
}

func TestReaches(t *testing.T) {
	for reach, list := range map[Refusal][]error{
		RefusedPair: {unix.EXDEV, unix.EOPNOTSUPP, unix.ENOTSUP, unix.ENOSYS, unix.ENOTTY},
		RefusedFile: {
			unix.EINVAL, unix.EPERM, unix.EACCES, unix.ENOENT, unix.EBADF, unix.ETXTBSY, unix.EFBIG, unix.EAGAIN,
		},
		NotRefused: {
			nil, unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.ENOMEM, unix.ESTALE, unix.ENODEV, unix.EINTR,
		},
	} {
		for _, err := range list {
			require.Equal(t, reach, reachOf(err), "%v", err)
		}
	}
	for number, want := range map[uint32]bool{
		0xff534d42: true, 0xfe534d42: true, 0x6969: false, unix.EXT4_SUPER_MAGIC: false, 0: false,
	} {
		require.Equal(t, want, overSMB(number), "%#x", number)
	}
}

func TestCloneAnswersOfOtherFileSystems(t *testing.T) {
	d, path := ownRoot(t)
	put(t, filepath.Join(path, "f"), "content")
	src := openFile(t, d, "f")
	for answer, reach := range map[error]Refusal{
		unix.EINVAL: RefusedFile, unix.ENOTTY: RefusedPair, unix.ENOSPC: NotRefused, unix.EIO: NotRefused,
	} {
		d.calls().fileClone = func(int, int) error { return answer }
		_, err := d.CreateClone(src, true)
		require.ErrorIs(t, err, answer)
		require.Equal(t, reach, RefusalOf(err))
		require.Equal(t, []string{"f"}, names(t, d))
	}
	calls := 0
	d.calls().fileClone = func(dst, from int) error {
		if calls++; calls < 3 {
			return unix.EINTR
		}
		require.Equal(t, src.fd, from)
		require.NotEqual(t, src.fd, dst)
		return nil
	}
	p, err := d.CreateClone(src, true)
	require.NoError(t, err)
	p.Abort()
	require.Equal(t, 3, calls)
}

func TestCopyRangeOnDisks(t *testing.T) {
	data := noise(1, 5<<20+7)
	for _, kind := range []string{"xfs", "btrfs", "ext4", "tmpfs"} {
		t.Run(kind, func(t *testing.T) {
			var d *Dir
			if kind == "tmpfs" {
				d, _ = mountOn(t, "-t", "tmpfs", "tmpfs")
			} else {
				d = newDisk(t, kind, t.TempDir()).Dir
			}
			p := begin(t, d, true, string(data))
			require.NoError(t, p.Commit("f"))
			src := openFile(t, d, "f")
			_, err := unix.Seek(src.fd, 99, unix.SEEK_SET)
			require.NoError(t, err)
			p, err = d.Create(false)
			require.NoError(t, err)
			defer p.Abort()
			copyAll(t, &p.File, src, int64(len(data)))
			for _, f := range []*File{src, &p.File} {
				at, err := unix.Seek(f.fd, 0, unix.SEEK_CUR)
				require.NoError(t, err)
				require.EqualValues(t, map[bool]int64{true: 99, false: 0}[f == src], at, "no file's position matters")
			}
			require.NoError(t, p.Commit("g"))
			require.True(t, string(data) == contentOf(t, d, "g"))
		})
	}
}

func TestCopyRangeMovesNoMoreThanTheKernel(t *testing.T) {
	const size, most = 5 << 30, 2_147_479_552
	d := newDisk(t, "xfs", t.TempDir()) // whose hole stays one
	p, err := d.Create(true)
	require.NoError(t, err)
	require.NoError(t, p.Truncate(size))
	require.NoError(t, p.WriteAt([]byte("end"), size-3))
	require.NoError(t, p.Commit("f"))
	src := openFile(t, d.Dir, "f")
	p, err = d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	calls := 0
	for off := int64(0); off < size; calls++ {
		moved, handled, err := p.CopyRange(src, off, size-off)
		require.NoError(t, err)
		require.True(t, handled)
		require.Equal(t, min(most, size-off), moved)
		off += moved
	}
	require.Equal(t, 3, calls)
	end := make([]byte, 8)
	n, err := p.ReadAt(end, size-3)
	require.NoError(t, err)
	require.Equal(t, "end", string(end[:n]))
}

func TestCopyRangeAnswersOfOtherFileSystems(t *testing.T) {
	d, path := ownRoot(t)
	put(t, filepath.Join(path, "f"), "content")
	src := openFile(t, d, "f")
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	type answer struct {
		n   int
		err error
	}
	for _, want := range []struct {
		answer
		handled bool
		reach   Refusal
	}{
		{answer{0, nil}, true, NotRefused},
		{answer{3, nil}, true, NotRefused},
		{answer{-1, unix.EXDEV}, false, RefusedPair},
		{answer{-1, unix.EPERM}, false, RefusedFile},
		{answer{-1, unix.EIO}, true, NotRefused},
		{answer{-1, unix.ENOSPC}, true, NotRefused},
	} {
		calls := 0
		d.calls().copyFileRange = func(from int, fromOff *int64, to int, toOff *int64, n, flags int) (int, error) {
			require.Equal(t, []int{src.fd, p.fd, maxRange, 0}, []int{from, to, n, flags})
			require.Equal(t, []int64{1 << 33, 1 << 33}, []int64{*fromOff, *toOff})
			if calls++; calls < 3 {
				*fromOff, *toOff = 0, 0
				return -1, unix.EINTR
			}
			return want.n, want.err
		}
		moved, handled, err := p.CopyRange(src, 1<<33, 1<<40)
		require.Equal(t, 3, calls)
		require.EqualValues(t, max(want.n, 0), moved)
		require.Equal(t, want.handled, handled)
		require.Equal(t, want.reach, RefusalOf(err))
		require.ErrorIs(t, err, want.err)
	}
	d.calls().copyFileRange = func(int, *int64, int, *int64, int, int) (int, error) {
		t.Error("a call that is not needed")
		return 0, nil
	}
	for _, n := range []int64{0, -1} {
		moved, handled, err := p.CopyRange(src, 0, n)
		require.NoError(t, err)
		require.True(t, handled)
		require.Zero(t, moved)
	}
	d.calls().rangesTrusted = func() bool { return false }
	_, handled, err := p.CopyRange(src, 0, 7)
	require.False(t, handled)
	require.Equal(t, RefusedPair, RefusalOf(err))
}

func TestCopyRangeRefused(t *testing.T) {
	tmpfs, path := mountOn(t, "-t", "tmpfs", "tmpfs")
	d := newDisk(t, "ext4", t.TempDir())
	src := d.file(t, "f", noise(1, 100_000))
	p, err := tmpfs.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	moved, handled, err := p.CopyRange(src, 0, 100_000)
	if unixRelease(t) >= 519 {
		require.Zero(t, moved)
		require.False(t, handled)
		require.Equal(t, RefusedPair, RefusalOf(err))
	} else {
		require.NoError(t, err)
	}

	proc, err := OpenRoot("/proc")
	require.NoError(t, err)
	defer proc.Close()
	moved, handled, err = p.CopyRange(openFile(t, proc, "version"), 0, 1<<20)
	require.Zero(t, moved)
	if handled { // "the end", of which only the caller can doubt
		require.NoError(t, err)
	} else {
		require.Equal(t, RefusedPair, RefusalOf(err))
	}

	fd, err := unix.Open(filepath.Join(path, "log"), unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	log := &File{Object: Object{fd: fd}}
	defer log.Close()
	put(t, filepath.Join(path, "f"), "content")
	_, handled, err = log.CopyRange(openFile(t, tmpfs, "f"), 0, 7)
	require.ErrorIs(t, err, unix.EBADF)
	require.False(t, handled)
	require.Equal(t, RefusedFile, RefusalOf(err))

	q, err := d.Create(true)
	require.NoError(t, err)
	defer q.Abort()
	_, err = src.SetDirect(true)
	require.NoError(t, err)
	_, handled, err = q.CopyRange(src, 0, 4096)
	require.False(t, handled)
	require.Equal(t, RefusedFile, RefusalOf(err))
	_, err = src.SetDirect(false)
	require.NoError(t, err)
	_, err = q.SetDirect(true)
	require.NoError(t, err)
	_, handled, err = q.CopyRange(src, 0, 4096)
	require.False(t, handled)
	require.Equal(t, RefusedFile, RefusalOf(err))
}

func TestReleaseAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"5.3": true, "5.3.0-64-generic": true, "5.10.0": true, "6.1.0-13-amd64": true, "10.0": true, "5.3-rc1": true,
		"5.2.21": false, "4.19.0": false, "3.10.0-1160.el7.x86_64": false, "": false, "x": false, "6": false,
	} {
		require.Equal(t, want, releaseAtLeast(release, 5, 3), release)
	}
	require.Equal(t, unixRelease(t) >= 503, system.rangesTrusted())
}

func TestPreallocateOnDisks(t *testing.T) {
	const size = 16 << 20
	for _, kind := range []string{"ext4", "xfs", "btrfs", "tmpfs"} {
		t.Run(kind, func(t *testing.T) {
			var d *Dir
			if kind == "tmpfs" {
				d, _ = mountOn(t, "-t", "tmpfs", "-o", "size=64m", "tmpfs")
			} else {
				d = newDisk(t, kind, t.TempDir()).Dir
			}
			p, err := d.Create(false)
			require.NoError(t, err)
			defer p.Abort()
			require.NoError(t, p.Preallocate(size))
			info, err := p.Stat()
			require.NoError(t, err)
			require.Zero(t, info.Size)
			require.InDelta(t, size/512, info.Blocks, 64)
			require.NoError(t, p.WriteAt(noise(1, 1<<20), 0))
			require.NoError(t, p.Truncate(1<<20))
			require.NoError(t, p.Sync())
			info, err = p.Stat()
			require.NoError(t, err)
			require.EqualValues(t, 1<<20, info.Size)
			require.InDelta(t, 1<<20/512, info.Blocks, 64, "given back")
			require.ErrorIs(t, p.Preallocate(1<<30), unix.ENOSPC)
			require.True(t, DestinationLost(p.Preallocate(1<<30)))
			info, err = p.Stat()
			require.NoError(t, err)
			require.EqualValues(t, 1<<20, info.Size)
		})
	}
	d, _ := mountOn(t, "-t", "ramfs", "ramfs")
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	require.True(t, Unsupported(p.Preallocate(size)))
}

// A file that must leave nothing in the page cache is not copied through it.
func TestCopyRangeIsRefusedWithoutTheCache(t *testing.T) {
	d := newDisk(t, "ext4", t.TempDir())
	src := d.file(t, "f", noise(1, 100_000))
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	for _, f := range []*File{src, &p.File} {
		if !f.SetUncached(true) {
			t.Skip("RWF_DONTCACHE is not supported")
		}
		_, handled, err := p.CopyRange(src, 0, 4096)
		require.False(t, handled)
		require.Equal(t, RefusedFile, RefusalOf(err))
		f.SetUncached(false)
		moved, handled, err := p.CopyRange(src, 0, 4096)
		require.NoError(t, err)
		require.True(t, handled)
		require.EqualValues(t, 4096, moved)
	}
}

// btrfs notes where a directory ends when it is opened.
func TestListAfterCreating(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		d := newDisk(t, kind, t.TempDir())
		dir, err := OpenRoot(d.path)
		require.NoError(t, err)
		defer dir.Close()
		require.NoError(t, os.WriteFile(filepath.Join(d.path, "new"), nil, 0o600))
		list, err := dir.List()
		require.NoError(t, err)
		var names []string
		for i := range list.Len() {
			names = append(names, list.Name(i))
		}
		require.Contains(t, names, "new", kind)
	}
}
