package fsys_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

func finderTree(t *testing.T) (dir string, root *fsys.Dir) {
	t.Helper()
	outside := t.TempDir()
	dir = filepath.Join(outside, "root")
	for name, content := range map[string]string{
		"a": "A", "d/b": "B", "d/e/c": "C", "../secret": "S", "f/a": "other",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	}
	root, err := fsys.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(root.Close)
	return dir, root
}

func read(t *testing.T, f *fsys.Finder, path string) (string, error) {
	t.Helper()
	file, info, err := f.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	buf := make([]byte, 100)
	n, err := file.ReadAt(buf, 0)
	require.NoError(t, err)
	require.EqualValues(t, n, info.Size)
	return string(buf[:n]), nil
}

func TestFinder(t *testing.T) {
	dir, root := finderTree(t)
	var links map[string]string
	if runtime.GOOS != "windows" {
		links = map[string]string{
			"to-a": "a", "to-dir": "d/e", "d/up": "../a", "d/e/top": "../../f/../d/b", "chain": "to-dir/top",
			"dot": "./d/./e//c", "out": "../secret", "d/out": "../../secret", "abs": dir + "/a", "loop": "loop",
			"to-root": ".", "out-and-back": "../root/a", "to-missing": "nothing", "slash": "d/", "past-file": "a/b",
		}
		for name, target := range links {
			require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
		}
	}
	good := map[string]string{
		"a": "A", "./a": "A", "d/b": "B", "d//b": "B", "d/./e/c": "C", "f/a": "other",
	}
	if links != nil {
		for name, want := range map[string]string{
			"to-a": "A", "to-dir/c": "C", "d/up": "A", "d/e/top": "B", "chain": "B", "dot": "C", "to-root/a": "A", "to-root/to-root/d/b": "B", "slash/b": "B",
		} {
			good[name] = want
		}
	}
	for _, limit := range []int{1, 2, 100} {
		f := fsys.NewFinder(root, limit)
		for range 2 {
			for path, want := range good {
				have, err := read(t, f, path)
				require.NoError(t, err, path)
				require.Equal(t, want, have, path)
			}
			for _, path := range []string{"", "/", "/etc/passwd", dir + "/a", "..", "../secret", "d/../a", "d/../../secret", "a/.."} {
				_, err := read(t, f, path)
				require.ErrorIs(t, err, fsys.ErrOutside, path)
				_, err = f.Lstat(path)
				require.ErrorIs(t, err, fsys.ErrOutside, path)
			}
			for _, path := range []string{"d", "d/", ".", "./", "d/e/."} {
				_, err := read(t, f, path)
				require.ErrorAs(t, err, new(*fsys.KindError), path)
			}
			for _, path := range []string{"nothing", "d/nothing", "nothing/at/all"} {
				_, err := read(t, f, path)
				require.ErrorIs(t, err, fs.ErrNotExist, path)
			}
			if links == nil {
				continue
			}
			for _, path := range []string{"out", "d/out", "abs", "out-and-back"} {
				_, err := read(t, f, path)
				require.ErrorIs(t, err, fsys.ErrOutside, path)
			}
			for _, path := range []string{"to-missing", "past-file", "a/b"} {
				_, err := read(t, f, path)
				require.ErrorIs(t, err, fs.ErrNotExist, path)
			}
			_, err := read(t, f, "loop")
			require.ErrorContains(t, err, "too many symbolic links")
			_, err = f.Lstat("to-dir/c")
			require.True(t, fsys.IsSymlinkRefusal(err), "%v", err)
			info, err := f.Lstat("to-a")
			require.NoError(t, err)
			require.Equal(t, fsys.Symlink, info.Kind)
		}
		f.Close()
	}
}

// A parent that is exchanged for a link between two paths is noticed: what is
// open stays what it was, and nothing outside is ever read.
func TestFinderWithADirectoryExchanged(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open directory cannot be renamed on Windows")
	}
	dir, root := finderTree(t)
	f := fsys.NewFinder(root, 10)
	defer f.Close()
	_, err := read(t, f, "d/e/c")
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "moved")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "d")))
	have, err := read(t, f, "d/b") // still open
	require.NoError(t, err)
	require.Equal(t, "B", have)
	_, err = read(t, f, "f/a")
	require.NoError(t, err)
	_, err = read(t, f, "d/secret")
	require.ErrorIs(t, err, fsys.ErrOutside)
}

func TestFinderInADeepTree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths are short on Windows")
	}
	root, err := fsys.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	const depth = 3000
	at := root
	for range depth {
		require.NoError(t, at.Mkdir("d"))
		next, err := at.OpenDir("d")
		require.NoError(t, err)
		if at != root {
			at.Close()
		}
		at = next
	}
	p, err := at.Create(true)
	require.NoError(t, err)
	require.NoError(t, p.WriteAt([]byte("deep"), 0))
	require.NoError(t, p.Commit("f"))
	at.Close()
	before := openFiles(t)
	f := fsys.NewFinder(root, 20)
	defer f.Close()
	have, err := read(t, f, strings.Repeat("d/", depth)+"f")
	require.NoError(t, err)
	require.Equal(t, "deep", have)
	require.LessOrEqual(t, openFiles(t)-before, 21)
	_, err = f.Lstat(strings.Repeat("d/", depth/2))
	require.ErrorAs(t, err, new(*fsys.KindError))
	info, err := f.Lstat(strings.Repeat("d/", depth/2) + "d")
	require.NoError(t, err)
	require.Equal(t, fsys.Directory, info.Kind)
}

// Links take no more descriptors than paths without any do, however far they
// lead down and up again.
func TestFinderFollowsLinksInADeepTree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths are short on Windows")
	}
	dir, at := finderTree(t)
	const depth = 600
	top := at
	for range depth {
		require.NoError(t, at.Mkdir("x"))
		next, err := at.OpenDir("x")
		require.NoError(t, err)
		if at != top {
			at.Close()
		}
		at = next
	}
	require.NoError(t, at.Symlink(strings.Repeat("../", depth)+"a", "up", fsys.Info{}))
	require.NoError(t, at.Symlink(strings.Repeat("../", depth-1)+"../x/../d/b", "around", fsys.Info{}))
	require.NoError(t, at.Symlink(strings.Repeat("../", depth+1)+"secret", "out", fsys.Info{}))
	at.Close()
	require.NoError(t, os.Symlink(strings.Repeat("x/", depth)+"up", filepath.Join(dir, "down")))
	before, most := openFiles(t), 0
	sys := &fsys.FS{Fault: func(fsys.Call) error {
		most = max(most, openFiles(t)-before)
		return nil
	}}
	root, err := sys.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, limit := range []int{1, 5} {
		f := fsys.NewFinder(root, limit)
		for path, want := range map[string]string{"down": "A", strings.Repeat("x/", depth) + "up": "A", strings.Repeat("x/", depth) + "around": "B"} {
			have, err := read(t, f, path)
			require.NoError(t, err)
			require.Equal(t, want, have)
		}
		_, err := read(t, f, strings.Repeat("x/", depth)+"out")
		require.ErrorIs(t, err, fsys.ErrOutside)
		f.Close()
	}
	require.Less(t, most, 10)
}

func TestNoSuchFile(t *testing.T) {
	_, root := finderTree(t)
	f := fsys.NewFinder(root, 1)
	defer f.Close()
	for _, path := range []string{"nothing", "nothing/at/all", "a/b", strings.Repeat("x", 300), strings.Repeat("x", 300) + "/b"} {
		_, _, err := f.Open(path)
		require.True(t, fsys.NoSuchFile(err), "%s: %v", path, err)
	}
	for _, path := range []string{"..", "d"} {
		_, _, err := f.Open(path)
		require.Error(t, err)
		require.False(t, fsys.NoSuchFile(err), "%s: %v", path, err)
	}
	require.False(t, fsys.NoSuchFile(nil))
}

// openFiles counts this process's descriptors, 0 where the system does not tell.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	require.NoError(t, err)
	return len(list)
}
