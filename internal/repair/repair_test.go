package repair_test

import (
	"context"
	"crypto/md5" //nolint:gosec // manifests have it
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/repair"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mend repairs dir, and returns its summary, its files by path, and what else it reported.
func mend(o *repair.Options) (*repair.Summary, map[string]*repair.File, []string, error) {
	files := map[string]*repair.File{}
	var others []string
	o.File = func(f *repair.File) { files[f.Path] = f }
	o.Report = func(r verify.Result) { others = append(others, fmt.Sprint(r.Verdict, " ", r.Path, ": ", r.Err)) }
	s, err := repair.Run(context.Background(), o, &counters.Set{})
	return s, files, others, err
}

// content returns the regular files below dir, except those of a kept or temporary name.
func content(t testing.TB, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return files
}

func sha(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func write(t testing.TB, dir, name, text string) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // a file as users have it
}

// sweepTree makes a damaged directory and a good one below dir: a file that differs, a missing one in a missing directory, and a file with
// three names.
func sweepTree(t testing.TB, dir string) (right map[string]string) {
	right = map[string]string{"a": "right a", "new/sub/b": "right b", "c": "right c", "d/link1": "right link", "d/link2": "right link", "link3": "right link"}
	disk, other := filepath.Join(dir, "disk"), filepath.Join(dir, "other")
	for name, text := range right {
		write(t, other, name, text)
	}
	write(t, disk, "a", "wrong a")
	write(t, disk, "c", "right c")
	write(t, disk, "d/link1", "wrong link")
	require.NoError(t, os.Link(filepath.Join(disk, "d/link1"), filepath.Join(disk, "d/link2")))
	require.NoError(t, os.Link(filepath.Join(disk, "d/link1"), filepath.Join(disk, "link3")))
	old := time.Unix(1_500_000_000, 0)
	for _, name := range []string{"d", "."} {
		require.NoError(t, os.Chtimes(filepath.Join(disk, name), old, old))
	}
	formats["two"](t, disk, right)
	return right
}

// judge checks that each name has its old or its right content.
func judge(t testing.TB, disk string, right map[string]string, what string) {
	old := map[string]string{"a": "wrong a", "c": "right c", "d/link1": "wrong link", "d/link2": "wrong link", "link3": "wrong link"}
	have := content(t, disk)
	for name, text := range right {
		was, existed := old[name]
		now, exists := have[name]
		require.True(t, !existed && !exists || now == text && exists || now == was && existed, "%s: %s is %q", what, name, now)
	}
}

// finished checks that a repair has ended: all is right, linked, and nothing but kept files is left.
func finished(t testing.TB, disk string, right map[string]string, discard bool, what string) {
	have := content(t, disk)
	for name, text := range right {
		require.Equal(t, text, have[name], "%s: %s", what, name)
		delete(have, name)
	}
	delete(have, "SHA256SUMS")
	delete(have, "MD5SUMS")
	for name := range have {
		require.True(t, !discard && strings.HasPrefix(filepath.Base(name), ".sealift-bad-"), "%s: %s is left", what, name)
	}
	one, err := os.Stat(filepath.Join(disk, "d/link1"))
	require.NoError(t, err)
	for _, name := range []string{"d/link2", "link3"} {
		two, err := os.Stat(filepath.Join(disk, name))
		require.NoError(t, err)
		require.True(t, os.SameFile(one, two), "%s: %s is no link any more", what, name)
	}
	_, err = os.Lstat(filepath.Join(disk, ".sealift-journal"))
	require.ErrorIs(t, err, fs.ErrNotExist, what)
	info, err := os.Stat(filepath.Join(disk, "new"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm(), what)
}

// The process is killed, or the power is cut, before each operation of a repair. Each name has its old or its right
// content then, and the same command finishes the repair, with the links.
func TestKilledAtEachOperation(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux recognizes unfinished directories and has files without a name")
	}
	for _, discard := range []bool{false, true} {
		for _, power := range []bool{false, true} {
			t.Run(fmt.Sprint("discard: ", discard, ", power: ", power), func(t *testing.T) {
				t.Parallel()
				for n := int64(0); ; n++ {
					what := fmt.Sprint("operation ", n)
					dir := filepath.Join(treetest.MemoryDir(t), fmt.Sprint(n))
					right := sweepTree(t, dir)
					disk := filepath.Join(dir, "disk")
					o := &repair.Options{Dir: disk, From: []string{filepath.Join(dir, "other")}, Discard: discard, Options: verify.Options{Workers: 1, Cache: pipe.CacheKeep}}
					model, err := faultfs.NewDisk(disk, true)
					require.NoError(t, err)
					o.FS = &fsys.FS{Fault: model.CutAt(n)}
					if power {
						o.FS.Disk = model
					}
					s, _, _, err := mend(o)
					ended := err == nil && s.Repaired == 5
					if power {
						lost := filepath.Join(dir, "lost")
						r := rand.New(rand.NewPCG(1, uint64(n)))
						survives := func() bool { return r.IntN(2) == 0 }
						if n%2 == 0 || ended {
							survives = nil
						}
						require.NoError(t, model.Lose(lost, survives))
						disk = lost
						o.Dir = lost
						if ended {
							finishedContent(t, disk, right, what)
						}
					}
					judge(t, disk, right, what)
					o.FS = nil
					_, _, reported, err := mend(o)
					require.NoError(t, err, what)
					require.Empty(t, reported, what)
					if power {
						finishedContent(t, disk, right, what)
					} else {
						finished(t, disk, right, discard, what)
					}
					treetest.Remove(t, dir)
					if ended {
						t.Logf("%d operations", n)
						return
					}
				}
			})
		}
	}
}

func finishedContent(t testing.TB, disk string, right map[string]string, what string) {
	have := content(t, disk)
	for name, text := range right {
		require.Equal(t, text, have[name], "%s: %s", what, name)
	}
}

// Each operation fails once. No name ever has other content than its old or its right one, and what failed is
// reported.
func TestEachOperationFails(t *testing.T) {
	t.Parallel()
	for n := int64(0); ; n++ {
		what := fmt.Sprint("operation ", n)
		dir := filepath.Join(treetest.MemoryDir(t), fmt.Sprint(n))
		right := sweepTree(t, dir)
		disk := filepath.Join(dir, "disk")
		failed := false
		fail := func(c fsys.Call) error {
			failed = true
			what += fmt.Sprint(", ", c.Op, " ", c.Path)
			return syscall.EIO
		}
		o := &repair.Options{Dir: disk, From: []string{filepath.Join(dir, "other")}, Options: verify.Options{Workers: 1, Cache: pipe.CacheKeep, FS: &fsys.FS{Fault: faultfs.OnIndex(n, fail)}}}
		s, _, reported, err := mend(o)
		if !failed {
			t.Logf("%d operations", n)
			return
		}
		judge(t, disk, right, what)
		if err == nil && s.Left+s.Failed == 0 && len(reported) == 0 && len(s.Untrusted) == 0 {
			finishedContent(t, disk, right, what)
		}
		o.FS = nil
		_, _, _, err = mend(o)
		require.NoError(t, err, what)
		finishedContent(t, disk, right, what)
		treetest.Remove(t, dir)
	}
}

// Only bytes that match every line about a file replace it.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manifests map[string]string
		disk      map[string]string
		other     map[string]string
		want      map[string]string // files after the repair
		why       string            // a part of Err, or the kind of the reason
		untrusted bool
	}{
		"two digests contradict each other": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n" + sha("two") + "  a\n"},
			disk:      map[string]string{"a": "bad"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "bad"}, why: "contradict",
		},
		"digests of two formats contradict each other": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n", "MD5SUMS": fmt.Sprintf("%x  a\n", md5.Sum([]byte("two")))}, //nolint:gosec // as above
			disk:      map[string]string{"a": "bad"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "bad"}, why: repair.Differs,
		},
		"digests of two formats contradict each other, and the first one matches": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n", "MD5SUMS": fmt.Sprintf("%x  a\n", md5.Sum([]byte("two")))}, //nolint:gosec // as above
			disk:      map[string]string{"a": "bad"}, other: map[string]string{"a": "two"}, want: map[string]string{"a": "bad"}, why: repair.Differs,
		},
		"a line far away contradicts": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n" + sha("b") + "  b\n" + sha("two") + "  ./a\n"},
			disk:      map[string]string{"a": "bad", "b": "b"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "bad", "b": "b"}, why: "contradict",
		},
		"a size only": {
			manifests: map[string]string{"l.mhl": `<hashlist version="1.1"><hash><file>a</file><size>3</size><null></null></hash></hashlist>`},
			disk:      map[string]string{"a": "long"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "long"}, why: "no line has a digest",
		},
		"a path that leads outside": {
			manifests: map[string]string{"SHA256SUMS": sha("x") + "  ../outside\n" + sha("b") + "  b\n"},
			disk:      map[string]string{"b": "b"}, other: map[string]string{"../outside": "x"}, want: map[string]string{"b": "b"}, why: "outside",
		},
		"a reserved name": {
			manifests: map[string]string{"SHA256SUMS": sha("x") + "  .sealift-journal/lock\n" + sha("x") + "  d/.sealift-0123456789abcdef.tmp\n"},
			disk:      map[string]string{"b": "b"}, other: map[string]string{".sealift-journal/lock": "x", "d/.sealift-0123456789abcdef.tmp": "x"}, want: map[string]string{"b": "b"}, why: "reserves",
		},
		"a manifest that does not match a line about it": {
			manifests: map[string]string{"SHA256SUMS": sha("one") + "  a\n" + sha("x") + "  MD5SUMS\n", "MD5SUMS": fmt.Sprintf("%x  a\n", md5.Sum([]byte("one")))}, //nolint:gosec // as above
			disk:      map[string]string{"a": "bad"}, other: map[string]string{"a": "one"}, want: map[string]string{"a": "bad"}, untrusted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			disk, other := filepath.Join(dir, "in", "disk"), filepath.Join(dir, "there", "other")
			require.NoError(t, os.MkdirAll(other, 0o755))
			for name, text := range c.disk {
				write(t, disk, name, text)
			}
			for name, text := range c.manifests {
				write(t, disk, name, text)
			}
			for name, text := range c.other {
				write(t, other, name, text)
			}
			s, files, _, err := mend(&repair.Options{Dir: disk, From: []string{other}})
			require.NoError(t, err)
			require.Zero(t, s.Repaired)
			have := content(t, disk)
			for name, text := range c.manifests {
				require.Equal(t, text, have[name])
				delete(have, name)
			}
			require.Equal(t, c.want, have)
			require.Equal(t, c.untrusted, len(s.Untrusted) > 0, s.Untrusted)
			if !c.untrusted {
				require.NotEmpty(t, files)
			}
			for _, f := range files {
				require.Equal(t, repair.Left, f.Result)
				if f.Err != nil {
					require.ErrorContains(t, f.Err, c.why)
				} else {
					require.Equal(t, c.why, f.Reasons[0].Kind)
				}
			}
		})
	}
}

// Each directory that does not help is listed with its reason, and the file of the next one is used.
func TestReasons(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("disk"), "a", "bad")
	write(t, at("disk"), "SHA256SUMS", sha("good")+"  a\n")
	require.NoError(t, os.MkdirAll(at("absent"), 0o755))
	write(t, at("differs"), "a", "evil")
	require.NoError(t, os.MkdirAll(at("type/a"), 0o755))
	write(t, at("good"), "a", "good")
	s, files, _, err := mend(&repair.Options{Dir: at("disk"), From: []string{at("absent"), at("differs"), at("type")}})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Left)
	var kinds []string
	for _, r := range files["a"].Reasons {
		kinds = append(kinds, r.Kind)
	}
	require.Equal(t, []string{repair.Absent, repair.Differs, repair.OtherType}, kinds)
	require.Equal(t, "bad", content(t, at("disk"))["a"])
	s, files, _, err = mend(&repair.Options{Dir: at("disk"), From: []string{at("absent"), at("good")}})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Repaired)
	require.Equal(t, 1, files["a"].From)
	require.Equal(t, ".sealift-bad-a", files["a"].Kept)
	require.Equal(t, map[string]string{"a": "good", ".sealift-bad-a": "bad", "SHA256SUMS": sha("good") + "  a\n"}, content(t, at("disk")))
}

// A link in another directory is not followed, also if it leads to a good copy there.
func TestLinksOfOthersAreNotFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, other := filepath.Join(dir, "disk"), filepath.Join(dir, "other")
	write(t, disk, "a", "bad")
	write(t, disk, "sub/b", "bad")
	write(t, disk, "SHA256SUMS", sha("good")+"  a\n"+sha("good")+"  sub/b\n")
	write(t, other, "real/b", "good")
	require.NoError(t, os.Symlink("real/b", filepath.Join(other, "a")))
	require.NoError(t, os.Symlink("real", filepath.Join(other, "sub")))
	s, files, _, err := mend(&repair.Options{Dir: disk, From: []string{other}})
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Left)
	for _, name := range []string{"a", "sub/b"} {
		require.Len(t, files[name].Reasons, 1)
		require.Equal(t, repair.OtherType, files[name].Reasons[0].Kind, "%s: %v", name, files[name].Reasons[0].Err)
		require.Equal(t, "bad", content(t, disk)[name])
	}
}

// A good file has the mode and the times of the damaged one, a restored one those of the other copy.
func TestMetadata(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("disk"), "a", "bad")
	write(t, at("disk"), "SHA256SUMS", sha("good")+"  a\n"+sha("good")+"  d/b\n")
	write(t, at("other"), "a", "good")
	write(t, at("other"), "d/b", "good")
	set := func(path string, year int, mode fs.FileMode) {
		when := time.Date(year, 1, 2, 3, 4, 5, 0, time.UTC)
		require.NoError(t, os.Chmod(at(path), mode))
		require.NoError(t, os.Chtimes(at(path), when, when))
	}
	set("disk/a", 2001, 0o640)
	set("other/a", 2002, 0o600)
	set("other/d/b", 2003, 0o444)
	set("other/d", 2004, 0o750)
	set("disk", 2005, 0o755)
	s, _, _, err := mend(&repair.Options{Dir: at("disk"), From: []string{at("other")}})
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Repaired)
	for path, want := range map[string]struct {
		year int
		mode fs.FileMode
	}{"disk/a": {2001, 0o640}, "disk/d/b": {2003, 0o444}, "disk/d": {2004, 0o750}, "disk": {2005, 0o755}} {
		info, err := os.Stat(at(path))
		require.NoError(t, err)
		require.Equal(t, want.year, info.ModTime().UTC().Year(), path)
		if runtime.GOOS != "windows" {
			require.Equal(t, want.mode, info.Mode().Perm(), path)
		}
	}
}

// A bag needs a flag for the damaged file, and a backup directory outside keeps it under its path.
func TestBackupOfABag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	right := map[string]string{"data/d/a": "good"}
	write(t, at("bag"), "data/d/a", "good")
	formats["bag"](t, at("bag"), right)
	write(t, at("bag"), "data/d/a", "bad")
	write(t, at("other"), "data/d/a", "good")
	for _, backup := range []string{"", "kept", "data/kept", "../bag/x"} {
		_, _, _, err := mend(&repair.Options{Dir: at("bag"), From: []string{at("other")}, Backup: backup})
		require.ErrorAs(t, err, new(*failure.RefusedError), backup)
	}
	require.Equal(t, "bad", content(t, at("bag"))["data/d/a"])
	s, _, reported, err := mend(&repair.Options{Dir: at("bag"), From: []string{at("other")}, Backup: "../kept"})
	require.NoError(t, err)
	require.Empty(t, reported)
	require.EqualValues(t, 1, s.Repaired)
	require.Equal(t, map[string]string{"data/d/a": "bad"}, content(t, at("kept")))
	require.Equal(t, "good", content(t, at("bag"))["data/d/a"])
}

// Another sealift that works in the directory keeps a repair out.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "disk/SHA256SUMS", sha("x")+"  a\n")
	write(t, dir, "other/a", "x")
	write(t, dir, "disk/.sealift-journal/lock", "")
	root, err := fsys.OpenRoot(filepath.Join(dir, "disk", ".sealift-journal"))
	require.NoError(t, err)
	defer root.Close()
	lock, err := root.Lock("lock")
	require.NoError(t, err)
	defer lock.Unlock()
	_, _, _, err = mend(&repair.Options{Dir: filepath.Join(dir, "disk"), From: []string{filepath.Join(dir, "other")}})
	require.ErrorContains(t, err, "another sealift is at work")
}
