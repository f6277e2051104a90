package fsys

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusalIsPartOfTheError(t *testing.T) {
	require.Equal(t, NotRefused, RefusalOf(nil))
	require.Equal(t, NotRefused, RefusalOf(errBoom))
	require.Equal(t, NotRefused, RefusalOf(errNotSupported), "of another operation")
	require.Equal(t, errBoom, refused(errBoom, NotRefused))
	for _, reach := range []Refusal{RefusedFile, RefusedPair} {
		err := refused(errNotSupported, reach)
		require.Equal(t, reach, RefusalOf(err))
		require.Equal(t, reach, RefusalOf(errors.Join(err)))
		require.True(t, Unsupported(err))
		require.Equal(t, errNotSupported.Error(), err.Error())
	}
}

// If the file system has clones, a clone has only the blocks of the source.
func TestCloneIsAsANewFile(t *testing.T) {
	for _, named := range []bool{false, true} {
		d, path := tempRoot(t)
		put(t, filepath.Join(path, "f"), "content")
		o, err := d.OpenObject("f")
		require.NoError(t, err)
		defer o.Close()
		if err := o.SetXattr("user.note", []byte("x")); err != nil {
			t.Log("attributes: ", err)
		}
		require.NoError(t, o.SetTimes(Time{Sec: 1e9}, Time{Sec: 1e9}, Time{Sec: 1e9}))
		require.NoError(t, o.Chmod(0o444))
		cloneIsAsANewFile(t, d, "f", "content", named)
		require.Equal(t, []string{"f"}, names(t, d))
	}
}

// cloneIsAsANewFile leaves nothing behind.
func cloneIsAsANewFile(t *testing.T, d *Dir, name, content string, named bool) {
	t.Helper()
	p, err := d.CreateClone(openFile(t, d, name), named)
	if RefusalOf(err) == RefusedPair {
		t.Log("clones: ", err)
		return
	}
	require.NoError(t, err)
	defer p.Abort()
	fresh, err := d.Create(named)
	require.NoError(t, err)
	defer fresh.Abort()
	require.Equal(t, fresh.Name() == "", p.Name() == "")
	want, err := fresh.Stat()
	require.NoError(t, err)
	got, err := p.Stat()
	require.NoError(t, err)
	require.EqualValues(t, len(content), got.Size)
	require.Equal(t, want.Kind, got.Kind)
	require.Equal(t, want.Mode, got.Mode)
	require.Equal(t, want.UID, got.UID)
	require.Equal(t, want.GID, got.GID)
	require.Equal(t, want.Nlink, got.Nlink)
	require.InDelta(t, want.Mtime.Sec, got.Mtime.Sec, 600)
	require.InDelta(t, want.Atime.Sec, got.Atime.Sec, 600)
	require.InDelta(t, want.Btime.Sec, got.Btime.Sec, 600)
	all := func(string) bool { return true }
	before, err := fresh.Xattrs(all)
	if !Unsupported(err) {
		require.NoError(t, err)
		after, err := p.Xattrs(all)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	require.NoError(t, p.WriteAt([]byte("C"), 0))
	require.NoError(t, p.Commit("clone"))
	require.Equal(t, "C"+content[1:], contentOf(t, d, "clone"))
	require.Equal(t, content, contentOf(t, d, name))
	require.NoError(t, d.Remove("clone"))
}

func TestCopyRange(t *testing.T) {
	d, path := tempRoot(t)
	text := string(noise(1, 300_000))
	put(t, filepath.Join(path, "f"), text)
	src := openFile(t, d, "f")
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	_, handled, err := p.CopyRange(src, 0, 1)
	if !handled {
		require.Equal(t, RefusedPair, RefusalOf(err))
		t.Skip("copy_file_range: ", err)
	}
	copyAll(t, &p.File, src, int64(len(text)))
	for _, off := range []int64{int64(len(text)), int64(len(text)) + 1<<20} {
		moved, handled, err := p.CopyRange(src, off, 1<<20)
		require.NoError(t, err)
		require.True(t, handled)
		require.Zero(t, moved, "past the end")
	}
	moved, handled, err := p.CopyRange(src, 0, 0)
	require.NoError(t, err)
	require.True(t, handled)
	require.Zero(t, moved)
	require.NoError(t, p.Commit("g"))
	require.Equal(t, text, contentOf(t, d, "g"))
}

// copyAll moves size bytes, in calls of odd lengths.
func copyAll(t *testing.T, dst, src *File, size int64) {
	t.Helper()
	for off := int64(0); off < size; {
		moved, handled, err := dst.CopyRange(src, off, min(size-off, 100_003))
		require.NoError(t, err)
		require.True(t, handled)
		require.Positive(t, moved)
		off += moved
	}
}

func TestFaultsOfFastPaths(t *testing.T) {
	d, path := ownRoot(t)
	put(t, filepath.Join(path, "f"), "content")
	src := openFile(t, d, "f")
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	before := names(t, d)

	failAll(&d.Object, errBoom, OpPreallocate)
	require.ErrorIs(t, p.Preallocate(1), errBoom)
	for _, failure := range []struct {
		err   error
		reach Refusal
	}{
		{errBoom, NotRefused},
		{errNotSupported, RefusedPair},
	} {
		failAll(&d.Object, failure.err, OpCopyRange)
		moved, handled, err := p.CopyRange(src, 0, 7)
		require.ErrorIs(t, err, failure.err)
		require.Zero(t, moved)
		require.Equal(t, failure.reach == NotRefused, handled)
		require.Equal(t, failure.reach, RefusalOf(err))
		for _, named := range []bool{false, true} {
			failAll(&d.Object, failure.err, OpClone)
			_, err = d.CreateClone(src, named)
			require.ErrorIs(t, err, failure.err)
			require.Equal(t, failure.reach, RefusalOf(err))
			require.Equal(t, before, names(t, d))
		}
	}
}

func TestPreallocate(t *testing.T) {
	d, _ := tempRoot(t)
	p, err := d.Create(true)
	require.NoError(t, err)
	defer p.Abort()
	require.NoError(t, p.WriteAt([]byte("content"), 0))
	for _, size := range []int64{0, 1, 1 << 20} {
		if err := p.Preallocate(size); !Unsupported(err) {
			require.NoError(t, err)
		}
		info, err := p.Stat()
		require.NoError(t, err)
		require.EqualValues(t, 7, info.Size)
	}
	require.NoError(t, p.Commit("f"))
	require.Equal(t, "content", contentOf(t, d, "f"))
}
