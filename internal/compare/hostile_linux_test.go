package compare_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// victims are the names of the tree that both attacks exchange.
func attacked() treetest.Dir {
	return treetest.Dir{
		"a": treetest.File("a"), "SHA256SUMS": treetest.File(strings.Repeat("0", 64) + "  a\n"),
		"d": treetest.Dir{"b": treetest.File("b"), "big": treetest.File(string(treetest.Pattern(300_000, 1))), "e": treetest.Dir{"c": treetest.File("c")}},
	}
}

// writes are the operations that change a tree.
var writes = map[fsys.Op]bool{
	fsys.OpCreate: true, fsys.OpWrite: true, fsys.OpTruncate: true, fsys.OpChown: true, fsys.OpChmod: true, fsys.OpTimes: true, fsys.OpSetXattr: true,
	fsys.OpMkdir: true, fsys.OpSymlink: true, fsys.OpMknod: true, fsys.OpLink: true, fsys.OpRename: true, fsys.OpRemove: true, fsys.OpPunch: true,
}

// Before each operation, one name of a tree is exchanged for a symbolic link to a tree
// outside. Nothing there is read, listed or reported, and nothing is written anywhere. Without
// SEALIFT_SWEEP=all, it is each fourth operation.
func TestExchangedForALinkToTheOutside(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	sides := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	treetest.Create(t, sides[0], attacked())
	treetest.Create(t, sides[1], attacked())
	require.NoError(t, os.Remove(filepath.Join(sides[0], "SHA256SUMS")))
	file, sub := treetest.CanaryFile, treetest.CanaryDir
	outside := treetest.NewTrap(t, filepath.Join(dir, "outside"), sub(treetest.Dir{
		"a": file(1), "canary": file(30), "SHA256SUMS": file(67),
		"d": sub(treetest.Dir{"b": file(1), "big": file(300_000), "canary": file(30), "e": sub(treetest.Dir{"c": file(1), "canary": file(30)})}),
	}))
	runs, stride, least := 0, 4, 100
	if os.Getenv("SEALIFT_SWEEP") == "all" {
		stride, least = 1, 300
	}
	for i, victim := range []string{".", "a", "d", "d/b", "d/big", "d/e", "d/e/c", "SHA256SUMS"} {
		for k, side := range sides {
			if _, err := os.Lstat(filepath.Join(side, victim)); err != nil {
				continue
			}
			bait := filepath.Join(dir, "bait")
			require.NoError(t, os.Symlink(filepath.Join(outside.Root, victim), bait))
			runs += treetest.Sweep(t, filepath.Join(side, victim), bait, victim == ".", i, stride, func(a *treetest.Attack) {
				var reported []string
				o := &compare.Options{Trees: sides, Workers: 2, Metadata: k == 0, Verbose: true}
				o.Report = func(e compare.Event) { reported = append(reported, text(e)) }
				o.FS = faultfs.New(func(op fsys.Op, name string) error {
					if writes[op] {
						t.Errorf("%s %q", op, name)
					}
					a.Before(t, string(op), name)
					return nil
				})
				_, err := compare.Run(context.Background(), o, &counters.Set{})
				require.Empty(t, outside.Touched(), "%s of tree %d exchanged before operation %d, %s (brief: %t): %v\n%v", victim, k, a.Nth, a.At, a.Brief, err, reported)
				require.NotContains(t, strings.Join(reported, "\n"), "canary")
				require.NotContains(t, strings.Join(reported, "\n"), treetest.Canary)
			})
			require.NoError(t, os.RemoveAll(bait))
		}
	}
	t.Logf("%d runs", runs)
	require.Greater(t, runs, least)
}

// One name is exchanged for a fifo, before each operation. No reader waits for a writer.
func TestExchangedForAFifo(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	sides := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	treetest.Create(t, sides[0], attacked())
	treetest.Create(t, sides[1], attacked())
	for i, victim := range []string{"a", "d", "d/big"} {
		bait := filepath.Join(dir, "bait")
		require.NoError(t, syscall.Mkfifo(bait, 0o600))
		treetest.Sweep(t, filepath.Join(sides[1], victim), bait, false, i, 2, func(a *treetest.Attack) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o := &compare.Options{Trees: sides, Workers: 2}
			o.FS = faultfs.New(func(op fsys.Op, name string) error {
				a.Before(t, string(op), name)
				return nil
			})
			s, err := compare.Run(ctx, o, &counters.Set{})
			require.NoError(t, err, "%s exchanged before operation %d, %s", victim, a.Nth, a.At)
			if a.At != "" && s.Differences() == 0 && s.Unreadable == 0 {
				require.Equal(t, int64(4), s.Files, "exchanged after it was read")
			}
		})
		require.NoError(t, os.RemoveAll(bait))
	}
}

func TestNamesAndKindsOfEverySort(t *testing.T) {
	t.Parallel()
	a, b := treetest.Dir{}, treetest.Dir{}
	for _, name := range treetest.WildNames() {
		a[name], b[name] = treetest.Dir{name: treetest.File("1")}, treetest.Dir{name: treetest.File("2")}
	}
	a["fifo"], b["fifo"] = treetest.Fifo(), treetest.Socket()
	lines, s := run(t, compare.Options{Trees: trees(t, a, b)})
	require.Len(t, lines, len(treetest.WildNames())+1)
	require.Equal(t, int64(len(treetest.WildNames())), s.Differ)
	require.Contains(t, lines, "type differs B fifo: fifo in A, socket in B")
}

func TestMetadataIsComparedWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 9, 30, 0, 123_456_789, time.UTC)
	mtime := treetest.Mtime(at)
	a := treetest.Dir{
		"same":  treetest.File("1", mtime, treetest.Mode(0o640), treetest.Xattr("user.x", "1")),
		"mode":  treetest.File("1", mtime, treetest.Mode(0o640)),
		"time":  treetest.File("1", mtime),
		"xattr": treetest.File("1", mtime, treetest.Xattr("user.x", "1"), treetest.Xattr("user.a", "1"), treetest.Xattr("user.y", "1")),
		"both":  treetest.File("1", mtime, treetest.Mode(0o600)),
		"d":     treetest.Directory(treetest.Dir{}, mtime, treetest.Mode(0o700)),
		"link":  treetest.Symlink("x", mtime),
	}
	b := treetest.Dir{
		"same":  treetest.File("1", mtime, treetest.Mode(0o640), treetest.Xattr("user.x", "1")),
		"mode":  treetest.File("1", mtime, treetest.Mode(0o4600)),
		"time":  treetest.File("1", treetest.Mtime(at.Add(time.Hour))),
		"xattr": treetest.File("1", mtime, treetest.Xattr("user.x", "2"), treetest.Xattr("user.b", "1"), treetest.Xattr("user.y", "1")),
		"both":  treetest.File("2", mtime, treetest.Mode(0o644)),
		"d":     treetest.Directory(treetest.Dir{}, mtime, treetest.Mode(0o750)),
		"link":  treetest.Symlink("x", treetest.Mtime(at.Add(time.Second))),
	}
	paths := trees(t, a, b)
	lines, s := run(t, compare.Options{Trees: paths})
	require.Equal(t, []string{"differs B both: content in B differs from byte 1 of 1"}, lines)
	require.Zero(t, s.MetadataDiffers)
	for _, quick := range []bool{false, true} {
		lines, s = run(t, compare.Options{Trees: paths, Metadata: true, Quick: quick})
		both, late := "differs B both: content in B differs from byte 1 of 1; mode 0600 in A, 0644 in B", "metadata differs B time: modified 2026-11-20 09:30:00 UTC in A, 2026-11-20 10:30:00 in B"
		if quick {
			both, late = "metadata differs B both: mode 0600 in A, 0644 in B", "differs B time: modified 2026-11-20 09:30:00 UTC in A, 2026-11-20 10:30:00 in B"
		}
		require.Equal(t, []string{
			both,
			"metadata differs B d/: mode 0700 in A, 0750 in B",
			"metadata differs B link: modified 2026-11-20 09:30:00 UTC in A, 2026-11-20 09:30:01 in B",
			"metadata differs B mode: mode 0640 in A, 4600 in B",
			late,
			"metadata differs B xattr: attribute 'user.a' in A only; attribute 'user.b' not in A; attribute 'user.x' differs",
		}, lines)
		require.Equal(t, int64(5), s.MetadataDiffers)
	}
}
