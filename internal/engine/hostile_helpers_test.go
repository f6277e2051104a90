//go:build linux

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// newTrap makes the tree outside. It has the names of the tree inside.
func newTrap(t *testing.T, root string) *treetest.Trap {
	file, dir := treetest.CanaryFile, treetest.CanaryDir
	return treetest.NewTrap(t, root, dir(treetest.Dir{
		"a": file(100), "z": file(500), "canary": file(30),
		"d":     dir(treetest.Dir{"b": file(200), "big": file(bigSize), "canary": file(30), "e": dir(treetest.Dir{"c": file(300), "canary": file(30)})}),
		"links": dir(treetest.Dir{"one": file(400), "two": file(400)}),
		".sealift-journal": dir(treetest.Dir{
			"lock": file(0), "root": file(0), "log.0123456789abcdef": file(100), "was.sha256.SHA256SUMS": file(100),
		}),
		"SHA256SUMS": treetest.File(sha("")+"  "+treetest.Canary+"\n", treetest.Mode(0o604), treetest.Mtime(longAgo)),
	}))
}

// leaks returns the content of the outside that has come into a tree.
func leaks(t *testing.T, root string) (list []string) {
	for path, n := range look(t, root) {
		if n.mode.IsRegular() && strings.Contains(n.content, treetest.Canary) {
			list = append(list, fmt.Sprintf("%s has come in: %.60q", path, n.content))
		}
		if strings.Contains(path, treetest.Canary) || strings.Contains(n.attrs, treetest.Canary) {
			list = append(list, "the name or an attribute has come in: "+path)
		}
	}
	return list
}

// hostileTree is copied while it is attacked. As root another user owns it, so that owners are
// set.
func hostileTree(t *testing.T, path string) {
	own := treetest.Owner(os.Getuid(), os.Getgid())
	if fsys.Privileged() {
		own = treetest.Owner(1234, 1235)
	}
	file := func(size int, seed byte, more ...treetest.Option) treetest.Node {
		return treetest.File(string(treetest.Pattern(size, seed)),
			append(more, own, treetest.Mode(0o640), treetest.Mtime(since), treetest.Xattr("user.inside", "1"))...)
	}
	dir := func(d treetest.Dir) treetest.Node {
		return treetest.Directory(d, own, treetest.Mode(0o750), treetest.Mtime(before))
	}
	treetest.Create(t, path, dir(treetest.Dir{
		"a": file(100, 1),
		"d": dir(treetest.Dir{
			"b": file(200, 2), "big": file(bigSize, 3), "e": dir(treetest.Dir{"c": file(300, 4)}),
			"fifo": treetest.Fifo(own, treetest.Mode(0o640)), "symlink": treetest.Symlink("b"),
		}),
		"links": dir(treetest.Dir{"one": file(400, 5, treetest.Linked("l")), "two": file(400, 5, treetest.Linked("l"))}),
		"z":     file(500, 6),
	}))
}

// filled makes a destination with the files of an earlier run. Their times and modes differ from
// the source's, so that the next run compares the content and updates the metadata.
func filled(t *testing.T, path string) {
	hostileTree(t, path)
	for _, name := range []string{"a", "d/big", "links/one"} {
		require.NoError(t, os.Chtimes(filepath.Join(path, name), longAgo, longAgo))
	}
	for _, name := range []string{"a", "d", "d/b", "d/e", "d/e/c", "d/fifo", "z"} {
		require.NoError(t, os.Chmod(filepath.Join(path, name), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(path, "SHA256SUMS"), []byte(sha("old")+"  z\n"), 0o644))
}

// stride is how many operations apart the sweeps exchange an entry.
var stride = int(sweepStride(71))

func attributesOf(t *testing.T, path string) (list string) {
	for _, name := range []string{"user.inside", "user.more"} {
		var value [8]byte
		if n, err := unix.Getxattr(path, name, value[:]); err == nil {
			list += name + "=" + string(value[:n]) + " "
		} else {
			require.ErrorIs(t, err, unix.ENODATA)
		}
	}
	return list
}

// stateOf returns the properties of a file that only its owner may change.
func stateOf(t *testing.T, path string) (st syscall.Stat_t) {
	require.NoError(t, syscall.Lstat(path, &st))
	st.Ctim, st.Atim, st.Nlink = syscall.Timespec{}, syscall.Timespec{}, 0
	return st
}
