package verify_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// Before each operation, one after the other, another process exchanges one name of a tree
// for a symbolic link to a tree outside. Nothing there is read, listed or reported.
func TestExchangedForALinkToTheOutside(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	in, other := filepath.Join(dir, "in"), filepath.Join(dir, "other")
	treetest.Create(t, in, treetest.Dir{
		"a": treetest.File("a"), "link": treetest.Symlink("d/e/c"),
		"d":                treetest.Dir{"b": treetest.File("b"), "e": treetest.Dir{"c": treetest.File("c")}, "unlisted": treetest.File("u")},
		"SHA256SUMS":       treetest.File(sha("a") + "  a\n" + sha("b") + "  d/b\n" + sha("c") + "  d/e/c\n" + sha("c") + "  link\n"),
		"MD5SUMS":          treetest.File(md("b") + "  d/b\n"),
		".sealift-journal": treetest.Dir{"log.1": treetest.File("")}, "SEALIFT-INCOMPLETE-a.txt": treetest.File("a"),
	})
	treetest.Create(t, other, treetest.Dir{"a": treetest.File("a"), "SHA256SUMS": treetest.File(sha("a") + "  a\n")})
	file, sub := treetest.CanaryFile, treetest.CanaryDir
	outside := treetest.NewTrap(t, filepath.Join(dir, "outside"), sub(treetest.Dir{
		"a": file(1), "canary": file(30), "SHA256SUMS": file(67), "MD5SUMS": file(40),
		".sealift-journal": sub(treetest.Dir{"canary": file(30)}), "SEALIFT-INCOMPLETE-a.txt": file(30),
		"d": sub(treetest.Dir{"b": file(1), "canary": file(30), "e": sub(treetest.Dir{"c": file(1), "canary": file(30)})}),
	}))
	runs := 0
	for i, victim := range []string{".", "a", "d", "d/b", "d/e", "d/e/c", "SHA256SUMS", "MD5SUMS", ".sealift-journal", "SEALIFT-INCOMPLETE-a.txt"} {
		for _, target := range []string{filepath.Join(outside.Root, victim), "../outside/" + victim} {
			bait := filepath.Join(dir, "bait")
			require.NoError(t, os.Symlink(target, bait))
			runs += treetest.Sweep(t, filepath.Join(in, victim), bait, victim == ".", i, 1, func(a *treetest.Attack) {
				var reported []string
				o := &verify.Options{Paths: []string{in, other}, Unlisted: true, Workers: 2, Verbose: true, Cache: []pipe.CacheMode{pipe.CacheAuto, pipe.CacheDrop}[a.Nth&1]}
				o.Report = func(r verify.Result) {
					reported = append(reported, fmt.Sprint(verdicts[r.Verdict], " ", r.Dir, " ", r.Path, " ", r.Err))
				}
				sys := faultfs.New(func(op fsys.Op, name string) error { a.Before(t, string(op), name); return nil })
				o.FS = sys
				_, err := verify.Run(context.Background(), o, &counters.Set{})
				all := strings.Join(reported, "\n")
				require.Empty(t, outside.Touched(), "%s exchanged before operation %d, %s (brief: %t):\n%s", victim, a.Nth, a.At, a.Brief, all)
				if refused := new(failure.RefusedError); err != nil {
					require.ErrorAs(t, err, &refused)
				}
				require.NotContains(t, all, "canary")
				require.NotContains(t, all, "FAILED", "another file was read")
			})
			require.NoError(t, os.Remove(bait))
		}
	}
	t.Logf("%d runs", runs)
}

// verify reports a manifest that grows, shrinks or is replaced while it is used. The number
// of lines that were counted at first stays the limit.
func TestManifestsThatChange(t *testing.T) {
	t.Parallel()
	long := func(files, first int) string {
		var b strings.Builder
		for i := range files {
			fmt.Fprintf(&b, "%s  f%d\n", sha(fmt.Sprint(i)), first+i)
		}
		return b.String()
	}
	rewrite := map[string]func(path string) error{
		"grows":      func(path string) error { return os.WriteFile(path, []byte(long(300, 0)), 0o600) },
		"shrinks":    func(path string) error { return os.WriteFile(path, []byte(long(20, 0)), 0o600) },
		"is emptied": func(path string) error { return os.Truncate(path, 0) },
		"has more lines in the same bytes": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat(md("")+"  f\n", 300) + long(100, 0))[:len(long(100, 0))], 0o600)
		},
		"is of others": func(path string) error { return os.WriteFile(path, []byte(long(100, 5000)), 0o600) },
		"is noise": func(path string) error {
			return os.WriteFile(path, treetest.Pattern(len(long(100, 0)), 1), 0o600)
		},
	}
	files := map[string]string{"SHA256SUMS": long(100, 0), "other.sha256": long(100, 0)}
	for i := range 100 {
		files[fmt.Sprint("f", i)] = fmt.Sprint(i)
	}
	for name, change := range rewrite {
		for _, which := range []string{"SHA256SUMS", "other.sha256"} {
			reads, of := 0, -1
			for of < reads {
				of++
				dir := tree(t, files)
				n := 0
				var mu sync.Mutex
				sys := faultfs.New(func(op fsys.Op, _ string) (err error) {
					mu.Lock()
					defer mu.Unlock()
					if op != fsys.OpRead {
						return nil
					}
					if n == of {
						err = change(filepath.Join(dir, which))
					}
					n++
					return err
				})
				reported, s, err := check(t, &verify.Options{FS: sys, Paths: []string{dir}, Workers: 1})
				if reads = min(n, 6); err != nil {
					refused := new(failure.RefusedError)
					require.ErrorAs(t, err, &refused)
					continue
				}
				lines := s.Manifests[0].Lines + s.Manifests[1].Lines
				require.LessOrEqual(t, s.Matches+s.Mismatches+s.Missing, lines)
				if s.Matches < lines {
					require.NotEmpty(t, reported, "%s of %s at reading %d: %+v", name, which, of, s)
				}
			}
		}
	}
}
