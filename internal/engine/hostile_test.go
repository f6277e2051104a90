//go:build linux

package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Another user may write to the source or to the destination. Just before an operation, that user
// replaces an entry by a symbolic link to a tree outside, or by a hard link to a file outside. The
// tests do this in one run for each operation. The run must not read, write or list anything in the
// tree outside, nor change its metadata.

func TestExchangedForALinkToTheOutside(t *testing.T) {
	t.Parallel()
	victims := map[string][]string{
		"src": {".", "d", "d/e", "a", "d/big", "links/one"},
		"dst": {".", "d", "d/e", "a", "d/b", "links/one", ".sealift-journal", "SHA256SUMS", "d/fifo"},
	}
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	hostileTree(t, src)
	tr := newTrap(t, filepath.Join(dir, "outside"))
	runs, offset := 0, 0
	for _, side := range []string{"src", "dst"} {
		for _, victim := range victims[side] {
			for _, full := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s %t", side, victim, full), func(t *testing.T) {
					once := func(nth int, brief bool) (seen int) {
						runs++
						dst := filepath.Join(dir, "dst")
						if full {
							filled(t, dst)
						} else {
							require.NoError(t, os.Mkdir(dst, 0o755))
						}
						defer treetest.Remove(t, dst)
						a := &treetest.Attack{Victim: filepath.Join(dir, side, victim), Bait: filepath.Join(dir, "bait"), Nth: nth, Brief: brief, Root: victim == "."}
						require.NoError(t, os.Symlink(filepath.Join(tr.Root, victim), a.Bait))
						o := sweepOptions(src, []string{dst}, dest.SyncFile)
						o.Verify = VerifyFull
						if nth%2 == 1 {
							o.Policy = policy.Always
						}
						sys := faultfs.New(func(op fsys.Op, name string) error { a.Before(t, string(op), name); return nil })
						o.FS = sys
						out := watched(t, o)
						at := a.At
						a.Undo(t)
						require.NoError(t, os.RemoveAll(a.Bait))
						wrong := append(tr.Touched(), leaks(t, dst)...)
						require.Empty(t, out.panicked)
						if len(wrong) > 0 {
							t.Errorf("exchanged before operation %d, %s (brief: %t):\n  %s\nreported:\n%s", nth, at, brief, strings.Join(wrong, "\n  "), out)
							treetest.Remove(t, tr.Root)
							tr = newTrap(t, tr.Root)
						}
						return a.Seen
					}
					count := once(-1, false)
					if !full && side == "dst" && victim == "SHA256SUMS" {
						require.Positive(t, count)
					}
					for nth := offset % stride; nth < count; nth += stride {
						once(nth, nth/stride%2 == 0)
					}
					offset++
				})
			}
		}
	}
	t.Logf("%d runs", runs)
}

// An entry of the destination is exchanged for another name of a file outside that is equal to
// the source's. Only the change time and the number of names of that file may change, as the
// exchange itself does.
func TestExchangedForAFileOutside(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, dst, twins := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "twins")
	hostileTree(t, src)
	runs := 0
	for i, victim := range []string{"a", "d/b", "d/big", "d/e/c", "links/one", "d/fifo", "d/symlink"} {
		for _, chosen := range []policy.Policy{policy.Default, policy.Update, policy.Always} {
			t.Run(victim+" "+chosen.String(), func(t *testing.T) {
				once := func(nth int, brief bool, only string) (seen int) {
					runs++
					filled(t, dst)
					filled(t, twins)
					defer treetest.Remove(t, dst)
					defer treetest.Remove(t, twins)
					twin := filepath.Join(twins, victim)
					if nth%3 == 0 && victim != "d/symlink" { // then the run compares the file; otherwise it is up to date
						require.NoError(t, os.Chtimes(twin, longAgo, longAgo))
					}
					if fsys.Privileged() {
						require.NoError(t, os.Lchown(twin, 77, 78))
					}
					was := stateOf(t, twin)
					a := &treetest.Attack{Victim: filepath.Join(dst, victim), Bait: filepath.Join(dir, "bait"), Nth: nth, Brief: brief, Only: only}
					require.NoError(t, os.Link(twin, a.Bait))
					o := sweepOptions(src, []string{dst}, dest.SyncNone)
					o.Policy = chosen
					sys := faultfs.New(func(op fsys.Op, name string) error { a.Before(t, string(op), name); return nil })
					o.FS = sys
					out := watched(t, o)
					require.Empty(t, out.panicked)
					if now := stateOf(t, twin); now != was {
						t.Errorf("exchanged before operation %d, %s (brief: %t): it was\n  %+v and is\n  %+v\nreported:\n%s", nth, a.At, brief, was, now, out)
					}
					a.Undo(t)
					require.NoError(t, os.RemoveAll(a.Bait))
					return a.Seen
				}
				count := once(-1, false, "")
				require.Positive(t, count)
				for nth := i % stride; nth < count; nth += stride {
					once(nth, nth/stride%2 == 0, "")
				}
				// The exchange matters most after the stat of the name and before its open.
				only := filepath.Base(victim)
				for nth := range once(-1, false, only) {
					once(nth, nth%2 == 0, only)
				}
			})
		}
	}
	t.Logf("%d runs", runs)
}

// A file outside that was linked into the destination before, by as many names as the source's
// file has, is not updated either.
func TestLinkedToAFileOutside(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src, dst, twins := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "twins")
	hostileTree(t, src)
	for name, change := range map[string]func(path string) error{
		"mode":  func(path string) error { return os.Chmod(path, 0o600) },
		"times": func(path string) error { return os.Chtimes(path, longAgo, longAgo) },
		"owner": func(path string) error { return os.Lchown(path, 77, 78) },
		"attribute": func(path string) error {
			return unix.Setxattr(path, "user.inside", []byte("2"), 0)
		},
		"further attribute": func(path string) error { return unix.Setxattr(path, "user.more", nil, 0) },
		"lacking attribute": func(path string) error { return unix.Removexattr(path, "user.inside") },
	} {
		if name == "owner" && !fsys.Privileged() {
			continue
		}
		for _, chosen := range []policy.Policy{policy.Default, policy.Update, policy.Checksum, policy.Always} {
			t.Run(name+" "+chosen.String(), func(t *testing.T) {
				for _, at := range []string{dst, twins} {
					hostileTree(t, at)
					defer treetest.Remove(t, at)
				}
				twin := filepath.Join(twins, "links/one")
				require.NoError(t, os.Remove(filepath.Join(twins, "links/two"))) // no more names than the source's
				require.NoError(t, change(twin))
				require.NoError(t, os.Remove(filepath.Join(dst, "links/one")))
				require.NoError(t, os.Link(twin, filepath.Join(dst, "links/one")))
				was, attributes := stateOf(t, twin), attributesOf(t, twin)
				o := sweepOptions(src, []string{dst}, dest.SyncNone)
				o.Policy = chosen
				out := watched(t, o)
				require.Zero(t, out.summary.Errors, "%s", out)
				require.Equal(t, was, stateOf(t, twin))
				require.Equal(t, attributes, attributesOf(t, twin))
				treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS", "."}})
			})
		}
	}
}

// Another user's directory replaces the destination that was just created. It gets no files,
// mode or owner.
func TestDestinationExchangedAfterItWasMade(t *testing.T) {
	t.Parallel()
	if !fsys.Privileged() {
		t.Skip("only root can give files away")
	}
	dir := treetest.MemoryDir(t)
	src, other := filepath.Join(dir, "src"), filepath.Join(dir, "other")
	hostileTree(t, src)
	for _, c := range []struct{ source, target string }{{src, "dst"}, {filepath.Join(src, "a"), "dst/"}} {
		require.NoError(t, os.Mkdir(other, 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(other, "theirs"), nil, 0o600))
		require.NoError(t, os.Lchown(other, 77, 78))
		was := stateOf(t, other)
		made := false
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpOpenDir && name == "dst" && !made {
				made = true
				require.NoError(t, os.Rename(filepath.Join(dir, "dst"), filepath.Join(dir, "aside")))
				return os.Rename(other, filepath.Join(dir, "dst"))
			}
			return nil
		})
		o := sweepOptions(c.source, []string{dir + "/" + c.target}, dest.SyncNone)
		o.FS = sys
		out := watched(t, o)
		require.True(t, made)
		require.Contains(t, out.String(), errExchanged.Error())
		require.Equal(t, was, stateOf(t, filepath.Join(dir, "dst")))
		entries, err := os.ReadDir(filepath.Join(dir, "dst"))
		require.NoError(t, err)
		require.Len(t, entries, 1)
		treetest.Remove(t, filepath.Join(dir, "dst"))
		treetest.Remove(t, filepath.Join(dir, "aside"))
	}
}

// An entry that replaces a new one before the metadata of that is set does not get the
// metadata.
func TestExchangedAfterItWasMade(t *testing.T) {
	t.Parallel()
	if !fsys.Privileged() {
		t.Skip("only root can give files away")
	}
	dir := treetest.MemoryDir(t)
	src, dst, other := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "other")
	hostileTree(t, src)
	for name, c := range map[string]struct {
		op   fsys.Op // by which it is opened again
		made fsys.Op
		put  func(at string) error
	}{
		"fifo": {fsys.OpOpen, fsys.OpMknod, func(at string) error {
			return os.Link(filepath.Join(other, "fifo"), at)
		}},
		"symlink": {fsys.OpOpen, fsys.OpSymlink, func(at string) error {
			return os.Link(filepath.Join(other, "symlink"), at)
		}},
		"e": {fsys.OpOpenDir, fsys.OpMkdir, func(at string) error {
			return os.Rename(filepath.Join(other, "e"), at)
		}},
	} {
		for _, replaced := range []bool{false, true} {
			if replaced && name == "e" {
				continue
			}
			t.Run(fmt.Sprint(name, replaced), func(t *testing.T) {
				filled(t, other)
				require.NoError(t, os.Rename(filepath.Join(other, "d"), other+"-d"))
				require.NoError(t, os.RemoveAll(other))
				require.NoError(t, os.Rename(other+"-d", other))
				defer treetest.Remove(t, other)
				defer treetest.Remove(t, dst)
				path := filepath.Join(other, name)
				require.NoError(t, os.Lchown(path, 77, 78))
				if replaced {
					filled(t, dst)
				}
				was := stateOf(t, path)
				made, put := "", false
				var mu sync.Mutex // the walk and the worker call it
				sys := faultfs.New(func(op fsys.Op, entry string) error {
					mu.Lock()
					defer mu.Unlock()
					if op == c.made && (entry == name || (replaced || name == "fifo") && strings.HasSuffix(entry, ".tmp")) {
						made = filepath.Join(dst, "d", entry)
					} else if op == c.op && made == filepath.Join(dst, "d", entry) && !put {
						put = true
						require.NoError(t, os.Rename(made, filepath.Join(dir, "aside")))
						defer os.RemoveAll(filepath.Join(dir, "aside")) //nolint:errcheck // it may have been removed already
						return c.put(made)
					}
					return nil
				})
				o := sweepOptions(src, []string{dst}, dest.SyncNone)
				o.Policy = policy.Always
				o.FS = sys
				out := watched(t, o)
				require.True(t, put)
				if name == "e" {
					path = made
				}
				require.Equal(t, was, stateOf(t, path), "%s", out)
				require.Contains(t, out.String(), errExchanged.Error())
				require.Positive(t, out.summary.Errors)
			})
		}
	}
}

// No entry of the destination is readable by others before it is complete and has its final
// mode: no temporary file, journal, manifest or directory.
func TestNothingIsReadableBeforeItIsComplete(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	hostileTree(t, src)
	write(t, src, "private/large", treetest.Pattern(resume.LeastPartial+sweepBlock, 9), since)
	require.NoError(t, filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink == 0 {
			err = os.Chmod(path, 0o777)
		}
		return err
	}))
	finals := look(t, src)
	var wrong []string
	seen := 0
	var mu sync.Mutex
	sys := faultfs.New(func(op fsys.Op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		_ = filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink != 0 {
				return nil //nolint:nilerr // it is gone already
			}
			info, err := d.Info()
			if err != nil || info.Mode()&0o077 == 0 {
				return nil //nolint:nilerr // as above
			}
			seen++
			rel, _ := filepath.Rel(dst, path)
			final, ours := finals[rel]
			// A temporary that is complete gets its mode before its name.
			whole := strings.HasSuffix(rel, ".tmp") && (info.Size() > 0 || !info.Mode().IsRegular()) && (op == fsys.OpTimes || op == fsys.OpSync || op == fsys.OpLink || op == fsys.OpRename || op == fsys.OpCloseFile)
			if !whole && rel != "SHA256SUMS" && (!ours || info.Mode() != final.mode || info.Mode().IsRegular() && info.Size() != int64(len(final.content))) {
				wrong = append(wrong, fmt.Sprintf("before %s %q: %s is %s", op, name, rel, info.Mode()))
			}
			return nil
		})
		return nil
	})
	o := sweepOptions(src, []string{dst}, dest.SyncEnd)
	o.BlockSize = 1 << 20
	o.Memory = 8 << 20
	o.FS = sys
	out := watched(t, o)
	require.False(t, out.anything(), "%s", out)
	require.Empty(t, wrong)
	require.Positive(t, seen)
}

// An entry of another kind replaces a file after it was listed. The run does not wait for it
// or read it, and reports it.
func TestExchangedForAnotherKind(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	kinds := map[string]treetest.Node{
		"a fifo": treetest.Fifo(), "a directory": treetest.Dir{"in": treetest.File(treetest.Canary)},
		"a symbolic link": treetest.Symlink("z"), "a socket": treetest.Socket(),
	}
	for kind, node := range kinds {
		for _, verify := range []VerifyMode{VerifyOff, VerifyFull} {
			t.Run(kind+" "+verify.String(), func(t *testing.T) {
				hostileTree(t, src)
				defer treetest.Remove(t, src)
				dst, bait := filepath.Join(dir, "dst"), filepath.Join(dir, "bait")
				defer treetest.Remove(t, dst)
				treetest.Create(t, bait, node)
				defer treetest.Remove(t, bait)
				reads, done := 0, false
				sys := faultfs.New(func(op fsys.Op, name string) error {
					if op == fsys.OpOpen && name == "b" && !done {
						// With VerifyFull, when the source is read again: at the third opening.
						if reads++; verify == VerifyOff || reads == 3 {
							treetest.Swap(t, filepath.Join(src, "d/b"), bait)
							done = true
						}
					}
					return nil
				})
				o := sweepOptions(src, []string{dst}, dest.SyncNone)
				o.Verify = verify
				o.FS = sys
				out := watched(t, o)
				require.True(t, done)
				require.EqualValues(t, 1, out.summary.Errors, "%s", out)
				require.Empty(t, leaks(t, dst))
				if verify == VerifyOff {
					require.NoFileExists(t, filepath.Join(dst, "d/b"))
				}
			})
		}
	}
}
