package sum_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/sum"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Before each operation, one after the other, another process exchanges one name of a tree
// for a symbolic link to a tree outside. Nothing there is read, listed, replaced or
// reported.
func TestExchangedForALinkToTheOutside(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	in := filepath.Join(dir, "in")
	treetest.Create(t, in, treetest.Dir{
		"a": treetest.File("a"),
		"d": treetest.Dir{"b": treetest.File("b"), "big": treetest.File(string(treetest.Pattern(300_000, 1))), "e": treetest.Dir{"c": treetest.File("c")}},
	})
	file, sub := treetest.CanaryFile, treetest.CanaryDir
	outside := treetest.NewTrap(t, filepath.Join(dir, "outside"), sub(treetest.Dir{
		"a": file(1), "canary": file(30), "SHA256SUMS": file(67),
		"d": sub(treetest.Dir{"b": file(1), "big": file(300_000), "canary": file(30), "e": sub(treetest.Dir{"c": file(1), "canary": file(30)})}),
	}))
	lines, errs := calm(t, in)
	require.Empty(t, errs)
	runs := 0
	for i, victim := range []string{".", "a", "d", "d/b", "d/big", "d/e", "d/e/c", "SHA256SUMS"} {
		for _, made := range []bool{false, true} {
			if made && victim == "." {
				continue // the user names it twice, and the second name is resolved after the exchange
			}
			manifest := filepath.Join(in, "SHA256SUMS")
			bait := filepath.Join(dir, "bait")
			require.NoError(t, os.Symlink(filepath.Join(outside.Root, victim), bait))
			runs += treetest.Sweep(t, filepath.Join(in, victim), bait, victim == ".", i, 1, func(a *treetest.Attack) {
				o := &sum.Options{Paths: []string{in}, Hashes: []hash.Algorithm{hash.SHA256}, Workers: 2}
				var out bytes.Buffer
				if o.Out = &out; made {
					require.NoError(t, os.WriteFile(manifest, []byte(strings.Join(lines, "")), 0o600))
					o.Manifest = manifest
				}
				var reported []string
				o.Report = func(e sum.Event) { reported = append(reported, e.Err.Error()) }
				named := !made || victim != "SHA256SUMS" // otherwise the user names the file that has the name at first
				sys := faultfs.New(func(op fsys.Op, name string) error {
					if named || op == fsys.OpRead {
						a.Before(t, string(op), name)
					}
					return nil
				})
				o.FS = sys
				s, err := sum.Run(context.Background(), o, &counters.Set{})
				require.Empty(t, outside.Touched(), "%s exchanged before operation %d, %s (brief: %t): %v\n%s%v", victim, a.Nth, a.At, a.Brief, err, &out, reported)
				if s != nil {
					require.Len(t, reported, int(s.Errors+s.Warnings))
				}
				content := out.Bytes()
				if made && err == nil {
					if content, err = os.ReadFile(manifest); err != nil {
						require.ErrorIs(t, err, os.ErrNotExist)
					}
				}
				for line := range strings.Lines(string(content)) {
					require.Contains(t, lines, line)
				}
				require.NotContains(t, strings.Join(reported, "\n"), "canary")
			})
			require.NoError(t, os.RemoveAll(manifest))
			require.NoError(t, os.RemoveAll(bait))
		}
	}
	t.Logf("%d runs", runs)
}

// calm returns the lines and messages for a tree that no other process changes.
func calm(t *testing.T, in string) (lines, reported []string) {
	var out bytes.Buffer
	o := &sum.Options{Paths: []string{in}, Hashes: []hash.Algorithm{hash.SHA256}, Out: &out}
	o.Report = func(e sum.Event) { reported = append(reported, e.Err.Error()) }
	_, err := sum.Run(context.Background(), o, &counters.Set{})
	require.NoError(t, err)
	for line := range strings.Lines(out.String()) {
		lines = append(lines, line)
	}
	return lines, reported
}
