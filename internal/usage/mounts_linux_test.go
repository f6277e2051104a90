package usage

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// mount mounts what is at source, or a new tmpfs, and skips where it cannot.
func mount(t *testing.T, source, at string) {
	t.Helper()
	kind, flags := "", uintptr(unix.MS_BIND)
	if source == "tmpfs" {
		kind, flags = source, 0
	}
	if err := unix.Mount(source, at, kind, flags, ""); err != nil {
		t.Skipf("mounting takes root: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(at, unix.MNT_DETACH)) })
}

func TestLikeDuWithMounts(t *testing.T) {
	needDu(t)
	t.Chdir(treetest.MemoryDir(t))
	big := func() treetest.Node { return treetest.File(strings.Repeat("x", 9000)) }
	treetest.Create(t, "r", treetest.Dir{
		"0":     treetest.Dir{"f": big(), "sub": treetest.Dir{"g": big()}},
		"tmpfs": treetest.Dir{"hidden": big()},
		"bound": treetest.Dir{},
		"file":  treetest.File("under"),
		"in":    treetest.Dir{"deep": treetest.Dir{"up": treetest.Dir{}}, "h": big()},
		"last":  treetest.Dir{"l": big()},
	})
	treetest.Create(t, "other", treetest.Dir{"o": big(), "p": treetest.Dir{"q": big()}})
	mount(t, "tmpfs", "r/tmpfs")
	treetest.Create(t, "r/tmpfs", treetest.Dir{"m": big(), "n": treetest.Dir{"o": big()}, "point": treetest.File("")})
	mount(t, "other", "r/bound")
	for _, paths := range [][]string{{"r"}, {"r/tmpfs"}, {"r", "r/tmpfs/n"}, {"other"}, {"r", "other"}, {"other/p", "r"}, {"r/tmpfs", "r"}} {
		requireAllLikeDu(t, paths...)
	}
	mount(t, "r/tmpfs/m", "r/file") // du counts it once if there are several paths
	requireAllLikeDu(t, "r")
	requireAllLikeDu(t, "r/file")
	treetest.Create(t, "empty", treetest.Dir{})
	alone := take(t, Options{Paths: []string{"r"}}).Entries
	require.Equal(t, alone, take(t, Options{Paths: []string{"r", "empty"}}).Entries[:1])
	// A directory in itself counts once.
	mount(t, "r", "r/in/deep/up")
	requireAllLikeDu(t, "r")
	requireAllLikeDu(t, "r/in")
	requireAllLikeDu(t, "r/in/deep/up", "r")
	mount(t, "r/0", "r/0/sub")
	requireAllLikeDu(t, "r")
	requireAllLikeDu(t, "r/0/sub")
	// So it does on another device, whose directories may have the same inode numbers.
	treetest.Create(t, "r/tmpfs", treetest.Dir{"n": treetest.Dir{"up": treetest.Dir{}}})
	mount(t, "tmpfs", "r/last")
	treetest.Create(t, "r/last", treetest.Dir{"f": big(), "in": treetest.Dir{"up": treetest.Dir{}}})
	mount(t, "r/tmpfs", "r/last/in/up")
	mount(t, "r/last", "r/tmpfs/n/up")
	requireAllLikeDu(t, "r")
	requireAllLikeDu(t, "r/last")
	mount(t, "tmpfs", "other/p")
	treetest.Create(t, "spare", treetest.Dir{})
	mount(t, "tmpfs", "spare")
	for _, dir := range []string{"other/p/x", "other/p/x/b", "spare/y", "spare/d"} { // inodes 2, 3; 2, 3
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	require.NoError(t, os.Rename("spare/y", "spare/d/y"))
	mount(t, "spare/d", "other/p/x/b")
	mount(t, "other/p/x", "other/p/x/b/y")
	requireAllLikeDu(t, "other")
}

// Entries have the inode numbers of their listing when du sorts by them, and all that
// is listed makes a directory large.
func TestALargeDirectoryWithMountsAndExcludes(t *testing.T) {
	needDu(t)
	t.Chdir(disk(t))
	require.NoError(t, os.Mkdir("r", 0o755))
	for i := range 10_001 {
		require.NoError(t, unix.Mknod(fmt.Sprint("r/", i), unix.S_IFREG|0o644, 0))
	}
	d, err := fsys.OpenRoot("r")
	require.NoError(t, err)
	defer d.Close()
	var last string
	require.NoError(t, d.Each(func(name []byte, _ uint64, _ fsys.Kind) bool { last = string(name); return true }))
	o := Options{Paths: []string{"r"}, MaxDepth: -1, Files: true, Filter: &filter.List{}}
	require.NoError(t, o.Filter.Exclude(last))
	requireLikeDu(t, o, "--exclude", last)
	o.Filter = nil
	for i := range 5 {
		dir := fmt.Sprint("r/mount", i)
		require.NoError(t, os.Mkdir(dir, 0o755))
		mount(t, "tmpfs", dir)
		requireLikeDu(t, o)
	}
	o.OneFileSystem = true
	requireLikeDu(t, o)
}

// asOrdinaryUser reports whether the test may continue as the current user. For root, which
// may read everything, it runs the test in another process as another user.
func asOrdinaryUser(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "usage")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	program := filepath.Join(dir, "test")
	from, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	temporary := filepath.Join(dir, "tmp") // the user may not be allowed to write to TMPDIR
	require.NoError(t, os.Mkdir(temporary, 0o700))
	require.NoError(t, os.Chown(temporary, nobody, nobody))
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && len(out) == 0:
		t.Skipf("no other user can run this: %v", err)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("%s", out)
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

func TestLikeDuWhereReadingIsNotAllowed(t *testing.T) {
	needDu(t)
	if !asOrdinaryUser(t) {
		return
	}
	for _, place := range []string{treetest.MemoryDir(t), t.TempDir()} {
		t.Chdir(place)
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			g := grow(rt, fmt.Sprint("t", n))
			defer treetest.Remove(t, g.root)
			var paths []string
			for range rapid.IntRange(1, 4).Draw(rt, "paths") {
				paths = append(paths, g.path(rt))
			}
			for i := len(g.dirs) - 1; i >= 0; i-- {
				mode := rapid.SampledFrom([]os.FileMode{0o755, 0o755, 0o444, 0o111, 0}).Draw(rt, "mode")
				require.NoError(rt, os.Chmod(g.dirs[i], mode))
			}
			for range 3 {
				requireLikeDu(rt, options(rt, paths...))
			}
		})
	}
}

// An unreadable directory on another file system is no error.
func TestUnreadableMountPoints(t *testing.T) {
	needDu(t)
	dir := treetest.MemoryDir(t)
	treetest.Create(t, dir, treetest.Dir{"a": treetest.File("x"), "m": treetest.Dir{}})
	mount(t, "tmpfs", dir+"/m")
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpOpenDir && name == "m" {
			return syscall.EACCES
		}
		return nil
	})
	for _, depth := range []int{-1, 0, 1} {
		got := take(t, Options{FS: sys, Paths: []string{dir}, MaxDepth: depth, OneFileSystem: true})
		require.Empty(t, got.Failed)
		require.Len(t, got.Entries, 1)
		got = take(t, Options{FS: sys, Paths: []string{dir}, MaxDepth: depth})
		require.Equal(t, []string{dir + "/m"}, got.Failed)
	}
}
