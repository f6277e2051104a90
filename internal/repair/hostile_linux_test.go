package repair_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/repair"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// Before each operation, one after the other, another process exchanges one name of the repaired directory, or of the other
// one, for a symbolic link to a tree outside. No file there is read, and nothing there is changed.
func TestExchangedForALinkToTheOutside(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	disk, other := filepath.Join(dir, "disk"), filepath.Join(dir, "other")
	treetest.Create(t, other, treetest.Dir{"a": treetest.File("a"), "d": treetest.Dir{"b": treetest.File("b"), "e": treetest.Dir{"c": treetest.File("c")}}})
	file, sub := treetest.CanaryFile, treetest.CanaryDir
	outside := treetest.NewTrap(t, filepath.Join(dir, "outside"), sub(treetest.Dir{
		"a": file(1), "canary": file(30), "d": sub(treetest.Dir{"b": file(1), "e": sub(treetest.Dir{"c": file(1)})}),
	}))
	runs := 0
	for i, victim := range []string{"disk/a", "disk/d", "disk/d/b", "disk/d/e", "other/a", "other/d", "other/d/b", "other/d/e", "other/d/e/c"} {
		bait := filepath.Join(dir, "bait")
		treetest.Create(t, disk, treetest.Dir{
			"a": treetest.File("A"), "d": treetest.Dir{"b": treetest.File("B"), "e": treetest.Dir{"c": treetest.File("C")}},
			"SHA256SUMS": treetest.File(sha("a") + "  a\n" + sha("b") + "  d/b\n" + sha("c") + "  d/e/c\n"),
		})
		require.NoError(t, os.Symlink(filepath.Join(outside.Root, filepath.FromSlash(victim[len(filepath.Dir(victim)+"/"):])), bait))
		runs += treetest.Sweep(t, filepath.Join(dir, victim), bait, false, i, 1, func(a *treetest.Attack) {
			for name, text := range map[string]string{"a": "A", "d/b": "B", "d/e/c": "C"} { // damaged again, unless exchanged
				path := filepath.Join(disk, name)
				if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && filepath.Join(dir, victim) != path {
					if real, err := filepath.EvalSymlinks(path); err == nil && real == path {
						require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
					}
				}
			}
			sys := faultfs.New(func(op fsys.Op, name string) error { a.Before(t, string(op), name); return nil })
			_, _, _, err := mend(&repair.Options{Dir: disk, From: []string{other}, Discard: true, Options: verify.Options{Workers: 2, Cache: pipe.CacheKeep, FS: sys}})
			require.Empty(t, outside.Touched(), "%s exchanged before operation %d, %s (brief: %t): %v", victim, a.Nth, a.At, a.Brief, err)
		})
		require.NoError(t, os.Remove(bait))
		treetest.Remove(t, disk)
	}
	t.Log(fmt.Sprint(runs, " runs"))
}
