package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Another process exchanges one name of a tree for a symbolic link to a tree outside, before
// each operation. Nothing there is listed or counted.
func TestExchangedForALinkToTheOutside(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	in := filepath.Join(dir, "in")
	treetest.Create(t, in, treetest.Dir{
		"a": treetest.File("a"), "links": treetest.Dir{"one": treetest.File("l", treetest.Linked("l")), "two": treetest.File("l", treetest.Linked("l"))},
		"d": treetest.Dir{"b": treetest.File("b"), "e": treetest.Dir{"c": treetest.File("c")}},
	})
	file, sub := treetest.CanaryFile, treetest.CanaryDir
	outside := treetest.NewTrap(t, filepath.Join(dir, "outside"), sub(treetest.Dir{
		"a": file(1 << 20), "canary": file(30), "links": sub(treetest.Dir{"one": file(1 << 20), "canary": file(30)}),
		"d": sub(treetest.Dir{"b": file(1 << 20), "canary": file(30), "e": sub(treetest.Dir{"c": file(1 << 20), "canary": file(30)})}),
	}))
	runs := 0
	for i, victim := range []string{".", "a", "d", "d/b", "d/e", "d/e/c", "links", "links/one"} {
		bait := filepath.Join(dir, "bait")
		require.NoError(t, os.Symlink(filepath.Join(outside.Root, victim), bait))
		for _, o := range []Options{
			{Paths: []string{in}, MaxDepth: -1, Files: true, Apparent: true},
			{Paths: []string{in, filepath.Join(in, "d")}, Apparent: true},
			{Paths: []string{in}, MaxDepth: -1, Top: 3, Apparent: true, OneFileSystem: true},
		} {
			if len(o.Paths) > 1 && victim == "." {
				continue // the user names it twice, and the second time means what it is then
			}
			o.Workers = 1 + i%3
			runs += treetest.Sweep(t, filepath.Join(in, victim), bait, victim == ".", i, 1, func(a *treetest.Attack) {
				o.FS = faultfs.New(func(op fsys.Op, name string) error { a.Before(t, string(op), name); return nil })
				got, err := run1(t.Context(), o)
				require.NoError(t, err)
				require.Empty(t, outside.Touched(), "%s exchanged before operation %d, %s (brief: %t): %v", victim, a.Nth, a.At, a.Brief, got)
				require.Less(t, got.Total.Size, uint64(1<<20))
				require.NotContains(t, strings.Join(got.Failed, "\n")+fmt.Sprint(got.Entries), "canary")
			})
		}
		require.NoError(t, os.Remove(bait))
	}
	t.Logf("%d runs", runs)
}
