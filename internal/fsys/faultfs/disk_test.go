package faultfs_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// world is a disk with one file that is flushed already, and its root.
type world struct {
	t    *testing.T
	disk *faultfs.Disk
	root *fsys.Dir
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(base, "old"), []byte("old"), 0o600))
	disk, err := faultfs.NewDisk(base, true)
	require.NoError(t, err)
	files := &faultfs.OpenFiles{}
	root, err := (&fsys.FS{Disk: disk, Tracker: files}).OpenRoot(base)
	require.NoError(t, err)
	t.Cleanup(func() {
		root.Close()
		require.Empty(t, files.Left())
	})
	return &world{t, disk, root}
}

// file makes a file under a name and leaves it open.
func (w *world) file(dir *fsys.Dir, name, content string) *fsys.File {
	w.t.Helper()
	p, err := dir.Create(true)
	require.NoError(w.t, err)
	require.NoError(w.t, p.WriteAt([]byte(content), 0))
	f, err := p.Dup()
	require.NoError(w.t, err)
	require.NoError(w.t, p.Commit(name))
	w.t.Cleanup(f.Close)
	return f
}

func (w *world) mkdir(name string) *fsys.Dir {
	w.t.Helper()
	require.NoError(w.t, w.root.Mkdir(name))
	d, err := w.root.OpenDir(name)
	require.NoError(w.t, err)
	w.t.Cleanup(d.Close)
	return d
}

// left lists what a power cut leaves: names with the content of files.
func (w *world) left(survives func() bool) []string {
	w.t.Helper()
	into := filepath.Join(w.t.TempDir(), "left")
	require.NoError(w.t, w.disk.Lose(into, survives))
	return listed(w.t, into)
}

func listed(t *testing.T, root string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch name = filepath.ToSlash(name); {
		case d.IsDir():
			name += "/"
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			name += " -> " + target
		default:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name += "=" + string(content)
		}
		list = append(list, name)
		return nil
	}))
	slices.Sort(list)
	return list
}

func everything() bool { return true }

func TestDiskLosesUnflushedData(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world)
		left []string // nil: as it was
		all  []string // where everything survives; nil: the same
	}{
		{
			name: "nothing is flushed",
			do:   func(w *world) { w.file(w.root, "new", "content") },
			all:  []string{"new=content", "old=old"},
		},
		{
			name: "data without the name",
			do:   func(w *world) { require.NoError(w.t, w.file(w.root, "new", "content").Sync()) },
			all:  []string{"new=content", "old=old"},
		},
		{
			name: "the name without data",
			do: func(w *world) {
				w.file(w.root, "new", "content")
				require.NoError(w.t, w.root.Sync())
			},
			left: []string{"new=", "old=old"},
			all:  []string{"new=content", "old=old"},
		},
		{
			name: "both",
			do: func(w *world) {
				require.NoError(w.t, w.file(w.root, "new", "content").Datasync())
				require.NoError(w.t, w.root.Sync())
			},
			left: []string{"new=content", "old=old"},
		},
		{
			name: "what is written after the flush",
			do: func(w *world) {
				f := w.file(w.root, "new", "content")
				require.NoError(w.t, f.Sync())
				require.NoError(w.t, w.root.Sync())
				require.NoError(w.t, f.WriteAt([]byte("!!"), 7))
				require.NoError(w.t, f.Truncate(8))
			},
			left: []string{"new=content", "old=old"},
			all:  []string{"new=content!", "old=old"},
		},
		{
			name: "a directory without its own name",
			do: func(w *world) {
				d := w.mkdir("d")
				require.NoError(w.t, w.file(d, "new", "content").Sync())
				require.NoError(w.t, d.Sync())
			},
			all: []string{"d/", "d/new=content", "old=old"},
		},
		{
			name: "names in two directories",
			do: func(w *world) {
				d := w.mkdir("d")
				require.NoError(w.t, w.file(d, "new", "content").Sync())
				require.NoError(w.t, w.root.Sync())
				require.NoError(w.t, d.Sync())
			},
			left: []string{"d/", "d/new=content", "old=old"},
		},
		{
			name: "a replaced file",
			do: func(w *world) {
				p, err := w.root.Create(false)
				require.NoError(w.t, err)
				require.NoError(w.t, p.WriteAt([]byte("content"), 0))
				require.NoError(w.t, p.Sync())
				require.NoError(w.t, p.CommitReplacing("old"))
			},
			all: []string{"old=content"},
		},
		{
			name: "a rename to another directory, of which one is flushed",
			do: func(w *world) {
				d := w.mkdir("d")
				require.NoError(w.t, w.root.Sync())
				require.NoError(w.t, w.root.MoveTo("old", d, "moved"))
				require.NoError(w.t, d.Sync())
			},
			left: []string{"d/", "d/moved=old"},
		},
		{
			name: "a removed name",
			do:   func(w *world) { require.NoError(w.t, w.root.Remove("old")) },
			all:  []string{},
		},
		{
			name: "a removed directory",
			do: func(w *world) {
				d := w.mkdir("d")
				require.NoError(w.t, w.file(d, "f", "x").Sync())
				require.NoError(w.t, d.Sync())
				require.NoError(w.t, w.root.Sync())
				require.NoError(w.t, d.Remove("f"))
				require.NoError(w.t, w.root.RemoveDir("d"))
			},
			left: []string{"d/", "d/f=x", "old=old"},
			all:  []string{"old=old"},
		},
		{
			name: "a removed directory, and its parent is flushed",
			do: func(w *world) {
				d := w.mkdir("d")
				require.NoError(w.t, d.Mkdir("e"))
				e, err := d.OpenDir("e")
				require.NoError(w.t, err)
				defer e.Close()
				require.NoError(w.t, w.file(e, "f", "x").Sync())
				require.NoError(w.t, w.file(e, "g", "y").Sync())
				for _, dir := range []*fsys.Dir{e, d, w.root} {
					require.NoError(w.t, dir.Sync())
				}
				require.NoError(w.t, e.Remove("f"))
				require.NoError(w.t, e.MoveTo("g", w.root, "moved"))
				require.NoError(w.t, d.RemoveDir("e"))
				require.NoError(w.t, w.root.RemoveDir("d"))
				require.NoError(w.t, w.root.Sync())
			},
			left: []string{"moved=y", "old=old"},
		},
		{
			name: "the inode of a removed file is another file's",
			do: func(w *world) {
				require.NoError(w.t, w.root.Remove("old"))
				require.NoError(w.t, w.file(w.root, "new", "content").Sync())
			},
			all: []string{"new=content"},
		},
		{
			name: "everything at once",
			do: func(w *world) {
				d := w.mkdir("d")
				w.file(d, "new", "content")
				require.NoError(w.t, d.Link("new", w.root, "further"))
				require.NoError(w.t, w.root.SyncFS())
			},
			left: []string{"d/", "d/new=content", "further=content", "old=old"},
		},
		{
			name: "the drive's own cache",
			do: func(w *world) {
				require.NoError(w.t, w.file(w.root, "new", "content").SyncToDrive())
				require.NoError(w.t, w.root.SyncToDrive())
				require.NoError(w.t, w.root.SyncDrive())
			},
			left: []string{"new=content", "old=old"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.do(w)
			left := c.left
			if left == nil {
				left = []string{"old=old"}
			}
			if c.all == nil {
				c.all = left
			}
			require.ElementsMatch(t, left, w.left(nil))
			require.ElementsMatch(t, c.all, w.left(everything))
		})
	}
}

func TestDiskFlushesAPart(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no call flushes a part of a file")
	}
	w := newWorld(t)
	const page = 4096
	content := strings.Repeat("a", page) + strings.Repeat("b", page) + strings.Repeat("c", page)
	f := w.file(w.root, "f", content)
	require.NoError(t, w.root.Sync())
	require.NoError(t, f.SyncPart(page, page))
	require.Equal(t, []string{"f=" + strings.Repeat("\x00", page) + content[page:2*page], "old=old"}, w.left(nil))
}

func TestDiskKeepsMetadataWithTheInode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.file(w.root, "f", "x")
	at := fsys.Time{Sec: 1e9}
	require.NoError(t, f.SetTimes(at, at, fsys.Time{}))
	require.NoError(t, f.Chmod(fsys.OddMode))
	require.NoError(t, w.root.Sync())
	require.NoError(t, f.Datasync())
	stat := func() fs.FileInfo {
		into := filepath.Join(t.TempDir(), "left")
		require.NoError(t, w.disk.Lose(into, nil))
		info, err := os.Stat(filepath.Join(into, "f"))
		require.NoError(t, err)
		return info
	}
	if runtime.GOOS != "windows" { // where it is Sync
		require.NotEqualValues(t, 1e9, stat().ModTime().Unix(), "Datasync leaves the times out")
	}
	require.NoError(t, f.Sync())
	require.EqualValues(t, 1e9, stat().ModTime().Unix())
	now, err := f.Stat()
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.EqualValues(t, now.Mode, stat().Mode().Perm())
	}
}

// Nothing but their directory, or the whole disk, can flush what cannot be opened.
func TestDiskKeepsMetadataOfLinksWithTheirDirectory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links take a privilege")
	}
	w := newWorld(t)
	require.NoError(t, w.root.Symlink("target", "link", fsys.Info{}))
	require.NoError(t, w.root.Sync())
	o, err := w.root.OpenObject("link")
	require.NoError(t, err)
	defer o.Close()
	at := fsys.Time{Sec: 1e9}
	require.NoError(t, o.SetTimes(at, at, fsys.Time{}))
	for _, flushed := range []bool{false, true} {
		into := filepath.Join(t.TempDir(), "left")
		require.NoError(t, w.disk.Lose(into, nil))
		info, err := os.Lstat(filepath.Join(into, "link"))
		require.NoError(t, err)
		require.Equal(t, flushed, info.ModTime().Unix() == 1e9)
		require.NoError(t, w.root.Sync())
	}
}

// A cut is the end: what comes after it changes nothing, and says so.
func TestDiskAfterTheCut(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	disk, err := faultfs.NewDisk(base, true)
	require.NoError(t, err)
	root, err := (&fsys.FS{Disk: disk, Fault: disk.CutAt(2)}).OpenRoot(base) // 0
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, root.Mkdir("a")) // 1
	require.ErrorIs(t, root.Mkdir("b"), faultfs.ErrCut)
	require.ErrorIs(t, root.SyncFS(), faultfs.ErrCut)
	w := &world{t: t, disk: disk}
	require.Equal(t, []string{"a/"}, w.left(everything))
	require.Empty(t, w.left(nil))
}

// Some survive of what was not flushed, and always the same for a seed.
func TestDiskLosesSome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		require.NoError(t, w.file(w.root, name, name).Sync())
	}
	some := func(seed uint64) []string {
		r := rand.New(rand.NewPCG(seed, 0))
		return w.left(func() bool { return r.IntN(2) == 0 })
	}
	for seed := range uint64(5) {
		left := some(seed)
		require.Equal(t, left, some(seed))
		require.Contains(t, left, "old=old")
		for _, l := range left {
			name, content, _ := strings.Cut(l, "=")
			require.True(t, content == name || strings.HasPrefix(name, fsys.Reserved), l)
		}
	}
	require.NotEqual(t, some(1), some(2))
}

func TestDiskWithoutACallForAll(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	disk, err := faultfs.NewDisk(base, false)
	require.NoError(t, err)
	root, err := (&fsys.FS{Disk: disk}).OpenRoot(base)
	require.NoError(t, err)
	defer root.Close()
	require.False(t, root.SyncFSReliable())
	require.True(t, fsys.Unsupported(root.SyncFS()))
}

func TestInjectors(t *testing.T) {
	t.Parallel()
	write := func(name string) fsys.Call { return fsys.Call{Op: fsys.OpWrite, Name: name} }
	read := fsys.Call{Op: fsys.OpRead, Name: "a"}
	i := faultfs.All(
		faultfs.OnOp(faultfs.OnName("a", faultfs.OnIndex(1, faultfs.Fail(syscall.EIO))), fsys.OpWrite),
		faultfs.From(6, faultfs.Fail(faultfs.ErrCut)),
	)
	for n, c := range []struct {
		call fsys.Call
		err  error
	}{
		{write("a"), nil},
		{write("b"), nil},
		{read, nil},
		{write("a"), syscall.EIO},
		{write("a"), nil},
		{read, nil},
		{read, nil}, // the failed one did not come to From
		{read, faultfs.ErrCut},
		{write("a"), faultfs.ErrCut},
	} {
		require.Equal(t, c.err, i(c.call), "call %d", n)
	}
}

// OpenFiles lists the open descriptors with the callers that opened them.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	files := &faultfs.OpenFiles{}
	base := t.TempDir()
	root, err := (&fsys.FS{Tracker: files}).OpenRoot(base)
	require.NoError(t, err)
	require.NoError(t, root.Mkdir("d"))
	d, err := root.OpenDir("d")
	require.NoError(t, err)
	p, err := d.Create(true)
	require.NoError(t, err)
	lock, err := root.Lock("lock")
	require.NoError(t, err)
	left := files.Left()
	require.Len(t, left, 4)
	for i, path := range []string{base, base + "/d", base + "/d/" + p.Name(), base + "/lock"} {
		require.True(t, strings.HasPrefix(left[i], path+"\n"), left[i])
		require.Contains(t, left[i], "faultfs_test.TestOpenFiles")
	}
	require.NoError(t, p.Commit("f"))
	lock.Unlock()
	d.Close()
	require.Len(t, files.Left(), 1)
	root.Close()
	require.Empty(t, files.Left())
}
