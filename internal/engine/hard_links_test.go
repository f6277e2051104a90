package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The names of a file at the destination have the source's content and other metadata. They may
// not all belong to the copy, so a new file replaces the first name. All other names that the
// source has become links to it.
func TestNamesOfOneFileStayOneFileWhenTheMetadataChanges(t *testing.T) {
	t.Parallel()
	for _, chosen := range []policy.Policy{policy.Default, policy.Update, policy.Checksum, policy.Protect} {
		for name, change := range map[string]func(path string) error{
			"time": func(path string) error { return os.Chtimes(path, time.Time{}, time.Now()) },
			"mode": func(path string) error { return os.Chmod(path, 0o444) },
		} {
			t.Run(chosen.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				base := treetest.MemoryDir(t)
				src, dst := filepath.Join(base, "src"), filepath.Join(base, "dst")
				names := []string{"a", "d/b", "d/c", "e"}
				require.NoError(t, os.MkdirAll(filepath.Join(src, "d"), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(src, names[0]), []byte("content"), 0o600))
				for _, name := range names[1:] {
					require.NoError(t, os.Link(filepath.Join(src, names[0]), filepath.Join(src, name)))
				}
				o := options(src, dst)
				_, err := Run(t.Context(), &o, new(counters.Set))
				require.NoError(t, err)
				outside := filepath.Join(base, "outside")
				require.NoError(t, os.Link(filepath.Join(dst, "a"), outside))
				require.NoError(t, change(outside))
				want, err := os.Stat(outside)
				require.NoError(t, err)

				o.Policy = chosen
				summary, err := Run(t.Context(), &o, new(counters.Set))
				require.NoError(t, err)
				require.Zero(t, summary.Errors)
				first, err := os.Stat(filepath.Join(dst, names[0]))
				require.NoError(t, err)
				source, err := os.Stat(filepath.Join(src, names[0]))
				require.NoError(t, err)
				require.True(t, source.ModTime().Equal(first.ModTime()))
				require.Equal(t, source.Mode(), first.Mode())
				for _, name := range names[1:] {
					info, err := os.Stat(filepath.Join(dst, name))
					require.NoError(t, err)
					require.True(t, os.SameFile(first, info), name)
				}
				have, err := os.Stat(outside)
				require.NoError(t, err)
				require.False(t, os.SameFile(first, have))
				require.Equal(t, want.ModTime(), have.ModTime())
				require.Equal(t, want.Mode(), have.Mode())
			})
		}
	}
}

// At the destination, one name of a file has become a separate file of the same size and time with
// other content. Perhaps another name is a separate file with another time. As long as no name is
// created or replaced, the damaged file is not read. A new name makes it compared: it becomes a link
// of the others, or a conflict. No name with the right content loses it.
func TestALinkDoesNotReplaceRightContentByOther(t *testing.T) {
	t.Parallel()
	names := []string{"a", "d/b", "d/c", "e"}
	at := time.Unix(1_600_000_000, 0)
	read := func(t *testing.T, path string) string {
		content, err := os.ReadFile(path) //nolint:gosec // ours
		require.NoError(t, err)
		return string(content)
	}
	for _, chosen := range []policy.Policy{policy.Default, policy.Protect, policy.Update} {
		for _, hashes := range [][]hash.Algorithm{{hash.SHA256}, nil} {
			for _, damaged := range names {
				for _, touched := range append([]string{""}, names...) {
					if touched == damaged {
						continue
					}
					t.Run(fmt.Sprint(chosen, " ", len(hashes), " hashes, damaged ", damaged, ", touched ", touched), func(t *testing.T) {
						t.Parallel()
						base := treetest.MemoryDir(t)
						src, dst := filepath.Join(base, "src"), filepath.Join(base, "dst")
						pair := treetest.Linked("pair")
						right := treetest.File("right", pair, treetest.Mtime(at))
						treetest.Create(t, src, treetest.Dir{"a": right, "d": treetest.Dir{"b": right, "c": right}, "e": right})
						o := options(src, dst)
						o.Policy, o.Hashes, o.Workers = chosen, hashes, 1
						_, err := Run(t.Context(), &o, new(counters.Set))
						require.NoError(t, err)
						replace := func(name, content string, mtime time.Time) {
							path := filepath.Join(dst, name)
							require.NoError(t, os.Remove(path))
							require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
							require.NoError(t, os.Chmod(path, 0o644))
							require.NoError(t, os.Chtimes(path, at, mtime))
						}
						replace(damaged, "wrong", at)
						if touched != "" {
							replace(touched, "right", at.Add(-time.Hour))
						}

						check := func() *Summary {
							summary, err := Run(t.Context(), &o, new(counters.Set))
							require.NoError(t, err)
							require.Zero(t, summary.Errors)
							for _, name := range names {
								if name != damaged {
									require.Equal(t, "right", read(t, filepath.Join(dst, name)), name)
								}
							}
							return summary
						}
						if chosen != policy.Update || touched == "" { // otherwise the touched file is replaced
							require.Zero(t, check().Conflicts)
							require.Equal(t, "wrong", read(t, filepath.Join(dst, damaged)))
						}
						require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "d/new")))
						summary := check()
						require.Equal(t, "right", read(t, filepath.Join(dst, "d/new")))
						kept := 0
						if read(t, filepath.Join(dst, damaged)) == "wrong" {
							kept = 1
						} else {
							require.NotEqual(t, policy.Protect, chosen)
						}
						require.EqualValues(t, kept, summary.Conflicts)
						var files []os.FileInfo // that differ
						for _, name := range names {
							info, err := os.Stat(filepath.Join(dst, name))
							require.NoError(t, err)
							if !slices.ContainsFunc(files, func(f os.FileInfo) bool { return os.SameFile(f, info) }) {
								files = append(files, info)
							}
						}
						require.Len(t, files, 1+kept)
					})
				}
			}
		}
	}
}

// A copy is killed before any of its operations. With policy "never", the next one adds links to the names
// that the killed one has made. With policy "default", existing separate files become links before a
// name is created, because the next copy does not read a file of which each name is up to date. So all names
// become one file. A symbolic link has its time.
func TestLinksAfterAKill(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "other systems do not mark a new directory, which needs its time")
	base := treetest.MemoryDir(t)
	src := filepath.Join(base, "src")
	mtime := time.Unix(1_600_000_000, 0)
	pair, at := treetest.Linked("pair"), treetest.Mtime(mtime)
	treetest.Create(t, src, treetest.Dir{
		"a": treetest.File("content", pair, at),
		"d": treetest.Dir{"b": treetest.File("content", pair, at), "c": treetest.File("content", pair, at)},
		"e": treetest.File("content", pair, at),
		"l": treetest.Symlink("a", at),
	})
	killed := errors.New("killed")
	for i, c := range []struct {
		policy   policy.Policy
		hashes   []hash.Algorithm
		existing []string
	}{
		{policy.Never, []hash.Algorithm{hash.SHA256}, nil},
		{policy.Never, nil, nil},
		{policy.Default, []hash.Algorithm{hash.SHA256}, []string{"a", "e"}},
		{policy.Default, nil, []string{"d/b", "d/c", "e"}},
	} {
		for n := int64(1); ; n++ {
			dst := filepath.Join(base, fmt.Sprintf("%d-%d", i, n))
			lines := ""
			for _, name := range c.existing {
				write(t, dst, name, []byte("content"), mtime)
				lines += sha("content") + "  " + name + "\n"
			}
			if c.existing != nil && c.hashes != nil {
				write(t, dst, "SHA256SUMS", []byte(lines), mtime)
			}
			var calls atomic.Int64
			o := options(src, dst)
			o.Policy, o.Hashes, o.Workers = c.policy, c.hashes, 1
			o.FS = faultfs.New(func(fsys.Op, string) error {
				if calls.Add(1) >= n { // everything fails from here on, so nothing is cleaned up
					return killed
				}
				return nil
			})
			_, _ = Run(t.Context(), &o, new(counters.Set))
			o.FS = nil
			_, err := Run(t.Context(), &o, new(counters.Set))
			require.NoError(t, err, "operation %d", n)
			treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS"}})
			if t.Failed() || calls.Load() < n {
				require.False(t, t.Failed(), "%v, operation %d", c, n)
				break
			}
		}
	}
}

// The source's manifest refutes the content under one name. No name is copied that the manifest does not
// list with the right digest, whatever the order of the names is.
func TestAManifestRefutesOneOfSeveralNames(t *testing.T) {
	t.Parallel()
	for _, refuted := range []string{"a", "m", "z"} {
		for _, workers := range []int{1, 8} {
			src, dst := sourceAndDestination(t)
			write(t, src, "a", []byte("content"), since)
			require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "m")))
			require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "z")))
			listed := map[string]string{"a": "m", "m": "z", "z": "a"}[refuted]
			lines := []string{sha("content") + "  " + listed + "\n", sha("other") + "  " + refuted + "\n"}
			slices.SortFunc(lines, func(x, y string) int { return strings.Compare(x[64:], y[64:]) })
			write(t, src, "SHA256SUMS", []byte(strings.Join(lines, "")), since)
			o := options(src, dst)
			o.Workers = workers
			s, err := Run(t.Context(), &o, new(counters.Set))
			require.NoError(t, err)
			require.EqualValues(t, 2, s.Mismatches)
			for _, name := range []string{"a", "m", "z"} {
				require.Equal(t, name == listed, fileExists(filepath.Join(dst, name)), "%s is refuted: %s", refuted, name)
			}
		}
	}
}

// The run reads the file under one name. It reports each name that the source's manifest lists otherwise,
// in whatever order the names come, and also a name that is a conflict.
func TestAReadingRefutesAllNamesOfAFile(t *testing.T) {
	t.Parallel()
	for _, refuted := range []string{"a", "z"} {
		src, dst := sourceAndDestination(t)
		right := map[string]string{"a": "z", "z": "a"}[refuted]
		write(t, src, "a", []byte("content"), since)
		require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "z")))
		write(t, dst, right, []byte("content"), since.Add(-time.Hour)) // it is compared
		write(t, dst, refuted, []byte("of the user"), since.Add(time.Hour))
		lines := []string{sha("content") + "  " + right + "\n", sha("other") + "  " + refuted + "\n"}
		slices.SortFunc(lines, func(x, y string) int { return strings.Compare(x[64:], y[64:]) })
		write(t, src, "SHA256SUMS", []byte(strings.Join(lines, "")), since)
		for _, dry := range []bool{true, false} {
			o := options(src, dst)
			o.DryRun = dry
			s, err := Run(t.Context(), &o, new(counters.Set))
			require.NoError(t, err)
			require.EqualValues(t, 1, s.Mismatches, "%s is refuted", refuted)
			require.EqualValues(t, 1, s.Conflicts, "%s is refuted", refuted)
			kept, err := os.ReadFile(filepath.Join(dst, refuted))
			require.NoError(t, err)
			require.Equal(t, "of the user", string(kept))
		}
	}
}
