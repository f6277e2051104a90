package treetest

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var then = time.Date(1969, 7, 20, 20, 17, 40, 123456789, time.UTC)

// full has something of everything that anybody can make.
func full() Dir {
	return Dir{
		"a\nb": File("text", Mode(0o4711), Mtime(then)),
		"deep": Directory(Dir{
			"one": File("pair", Linked("pair"), Mtime(then)),
			"two": Dir{"x": File("1", Mtime(then))},
		}, Mode(0o750), Mtime(then)),
		"hole": Sparse(1<<20, map[int64]string{4096: "data"}, Mtime(then)),
		"link": Symlink("deep/one", Mtime(then)),
		"mate": File("pair", Linked("pair")),
		"pipe": Fifo(Mtime(then)),
	}
}

func make2(t *testing.T) (want, got string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such names and kinds")
	}
	want, got = filepath.Join(t.TempDir(), "want"), filepath.Join(t.TempDir(), "got")
	for _, p := range []string{want, got} {
		Create(t, p, full())
		require.NoError(t, os.Chtimes(filepath.Join(p, "deep/two"), then, then))
		require.NoError(t, os.Chtimes(filepath.Join(p, "deep"), then, then))
	}
	return want, got
}

func TestEqualTreesHaveNoDifference(t *testing.T) {
	want, got := make2(t)
	Compare(t, want, got, Options{})
	Create(t, got, Dir{"sums": File("not compared")})
	Compare(t, want, got, Options{Ignore: []string{"sums"}})
}

func TestCreateMakesTheTreeOfTheLiteral(t *testing.T) {
	_, dir := make2(t)
	info, err := os.Lstat(filepath.Join(dir, "a\nb"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o711), info.Mode().Perm())
	require.True(t, info.ModTime().Equal(then))
	one, err := os.Lstat(filepath.Join(dir, "deep/one"))
	require.NoError(t, err)
	mate, err := os.Lstat(filepath.Join(dir, "mate"))
	require.NoError(t, err)
	require.True(t, os.SameFile(one, mate))
	target, err := os.Readlink(filepath.Join(dir, "link"))
	require.NoError(t, err)
	require.Equal(t, "deep/one", target)
}

// Each row changes one thing in a tree, which must be what is found.
func TestDiffFindsEachDifference(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(dir string) error
		found  string
	}{
		{"missing", func(d string) error { return os.Remove(d + "/deep/two/x") }, `"deep/two/x": is missing`},
		{"surplus", func(d string) error { return os.WriteFile(d+"/new", nil, 0o600) }, `"new": should not be there`},
		{"content", func(d string) error { return os.WriteFile(d+"/deep/two/x", []byte("2"), 0o600) }, `content differs`},
		{"size", func(d string) error { return os.Truncate(d+"/deep/two/x", 9) }, `want 1 bytes, got 9`},
		{"kind", func(d string) error {
			return errors.Join(os.Remove(d+"/pipe"), os.Mkdir(d+"/pipe", 0o700))
		}, `want p---------, got d---------`},
		{"target", func(d string) error {
			return errors.Join(os.Remove(d+"/link"), os.Symlink("deep/two", d+"/link"))
		}, `want a link to "deep/one"`},
		{"mode", func(d string) error { return os.Chmod(d+"/a\nb", 0o711) }, `want mode u`},
		{"directory's mode", func(d string) error { return os.Chmod(d+"/deep", 0o700) }, `"deep": want mode`},
		{"time", func(d string) error {
			return os.Chtimes(d+"/a\nb", then, then.Add(1))
		}, `"a\nb": want modification time 1969-07-20T20:17:40.123456789Z, got 1969-07-20T20:17:40.12345679Z`},
		{"link broken", func(d string) error {
			return errors.Join(os.Remove(d+"/mate"), Make(d+"/mate", File("pair", Mtime(then))))
		}, `want a hard link to "deep/one", got a file of its own`},
		{"link too many", func(d string) error {
			return errors.Join(os.Remove(d+"/deep/two/x"), os.Link(d+"/mate", d+"/deep/two/x"))
		}, `got a hard link to`},
		{"hole filled", func(d string) error {
			data := make([]byte, 1<<20)
			copy(data[4096:], "data")
			return os.WriteFile(d+"/hole", data, 0o600)
		}, `want holes`},
	} {
		t.Run(row.name, func(t *testing.T) {
			want, got := make2(t)
			require.NoError(t, row.change(got))
			differences, err := Diff(want, got, Options{})
			require.NoError(t, err)
			require.Contains(t, strings.Join(differences, "\n"), row.found)
		})
	}
}

func TestDiffFindsXattrs(t *testing.T) {
	want, got := make2(t)
	for _, row := range []struct {
		dir, value, found string
	}{
		{want, "1", "want extended attribute user.note, got none"},
		{got, "2", `extended attribute user.note: want "1", got "2"`},
	} {
		err := setXattr(filepath.Join(row.dir, "hole"), "user.note", row.value)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOTSUP) {
			t.Skip("no extended attributes here")
		}
		require.NoError(t, err)
		differences, err := Diff(want, got, Options{})
		require.NoError(t, err)
		require.Contains(t, strings.Join(differences, "\n"), row.found)
		differences, err = Diff(got, want, Options{NoXattrs: true})
		require.NoError(t, err)
		require.Empty(t, differences)
	}
}

func TestDiffFindsOwnersAndDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("owners and device nodes take root")
	}
	want, got := filepath.Join(t.TempDir(), "want"), filepath.Join(t.TempDir(), "got")
	Create(t, want, Dir{"null": CharDevice(1, 3, Mtime(then)), "f": File("", Owner(1, 2), Mtime(then))})
	Create(t, got, Dir{"null": CharDevice(1, 5, Mtime(then)), "f": File("", Owner(1, 3), Mtime(then))})
	differences, err := Diff(want, got, Options{})
	require.NoError(t, err)
	require.Len(t, differences, 2)
	require.Contains(t, differences[0], "want owner 1:2, got 1:3")
	require.Contains(t, differences[1], "want device")
}
