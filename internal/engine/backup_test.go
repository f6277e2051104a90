package engine

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// backedUpTo returns options with a backup directory and policy always.
func backedUpTo(backup, src string, dst ...string) Options {
	o := options(src, dst...)
	o.BackupDir, o.Policy = backup, policy.Always
	return o
}

// oldAndNew makes a source and a destination that has an older state of it.
func oldAndNew(t testing.TB) (src, dst string) {
	t.Helper()
	dir := treetest.MemoryDir(t)
	src, dst = filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, src, "a", []byte("new a"), since)
	write(t, src, "d/e/b", treetest.Pattern(bigSize, 1), since)
	write(t, src, "d/fresh", []byte("fresh"), since)
	write(t, dst, "a", []byte("old a"), longAgo)
	write(t, dst, "d/e/b", []byte("old b"), longAgo)
	return src, dst
}

// contents are the regular files below root, without manifests.
func contents(t testing.TB, root string) map[string]string {
	t.Helper()
	have, err := regularFiles(root)
	require.NoError(t, err)
	list := map[string]string{}
	for path, content := range have {
		if filepath.Base(path) != "SHA256SUMS" {
			list[path] = string(content)
		}
	}
	return list
}

func TestBackupKeepsWhatIsReplaced(t *testing.T) {
	t.Parallel()
	src, dst := oldAndNew(t)
	out := runReported(t, backedUpTo("old/1", src, dst))
	require.Empty(t, out.bad())
	want := contents(t, src)
	want["old/1/a"], want["old/1/d/e/b"] = "old a", "old b"
	require.Equal(t, want, contents(t, dst))
	require.EqualValues(t, 2, out.summary.Targets[0].BackedUp)
	require.Equal(t, filepath.Join(dst, "old/1"), out.summary.Targets[0].BackupDir)
	require.EqualValues(t, 2, out.summary.Replaced)
	lines, err := os.ReadFile(filepath.Join(dst, "SHA256SUMS"))
	require.NoError(t, err)
	require.NotContains(t, string(lines), "old/")

	out = runReported(t, backedUpTo("old/1", src, dst)) // replaces all three
	require.Empty(t, out.bad())
	want["old/1/a.~1~"], want["old/1/d/e/b.~1~"], want["old/1/d/fresh"] = want["a"], want["d/e/b"], "fresh"
	require.Equal(t, want, contents(t, dst), "the second backup of a name gets a number")
	require.EqualValues(t, 3, out.summary.Targets[0].BackedUp)
	runReported(t, backedUpTo("old/1", src, dst))
	require.FileExists(t, filepath.Join(dst, "old/1/a.~2~"))
}

func TestBackupOutsideTheDestination(t *testing.T) {
	t.Parallel()
	src, dst := oldAndNew(t)
	backup := filepath.Join(filepath.Dir(dst), "kept", "x")
	out := runReported(t, backedUpTo(backup, src, dst))
	require.Empty(t, out.bad())
	require.Equal(t, map[string]string{"a": "old a", "d/e/b": "old b"}, contents(t, backup))
	require.Equal(t, contents(t, src), contents(t, dst))
}

func TestBackupOfEachDestination(t *testing.T) {
	t.Parallel()
	src, dst := oldAndNew(t)
	second := dst + "2"
	write(t, second, "a", []byte("other a"), longAgo)
	out := runReported(t, backedUpTo("old", src, dst, second))
	require.Empty(t, out.bad())
	require.Equal(t, map[string]string{"a": "old a", "d/e/b": "old b"}, contents(t, filepath.Join(dst, "old")))
	require.Equal(t, map[string]string{"a": "other a"}, contents(t, filepath.Join(second, "old")))
	require.EqualValues(t, 2, out.summary.Targets[0].BackedUp)
	require.EqualValues(t, 1, out.summary.Targets[1].BackedUp)
}

func TestBackupOfASingleFile(t *testing.T) {
	t.Parallel()
	src, dst := oldAndNew(t)
	out := runReported(t, backedUpTo("old", filepath.Join(src, "a"), dst))
	require.Empty(t, out.bad())
	require.Equal(t, map[string]string{"a": "old a"}, contents(t, filepath.Join(dst, "old")))
}

// Files that this run has created are not kept, and a run that replaces nothing creates no
// backup directory.
func TestBackupIsMadeOnlyWhenNeeded(t *testing.T) {
	t.Parallel()
	for _, chosen := range []policy.Policy{policy.Default, policy.Protect, policy.Never, policy.Checksum} {
		src, dst := oldAndNew(t)
		runReported(t, options(src, dst))
		o := backedUpTo("old", src, dst)
		o.Policy = chosen
		out := runReported(t, o)
		require.Empty(t, out.bad())
		require.NoDirExists(t, filepath.Join(dst, "old"))
	}
}

// Policy "protect" replaces no content. But a file with other names, whose metadata must change, is replaced.
func TestBackupOfAFileWithOtherNamesUnderProtect(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	write(t, src, "a", []byte("x"), since)
	write(t, dst, "a", []byte("x"), since.Add(-time.Hour))
	require.NoError(t, os.Link(filepath.Join(dst, "a"), filepath.Join(dst, "b")))
	o := backedUpTo("old", src, dst)
	o.Policy = policy.Protect
	out := runReported(t, o)
	require.EqualValues(t, 1, out.summary.Replaced)
	require.Equal(t, map[string]string{"a": "x"}, contents(t, filepath.Join(dst, "old")))
}

func TestBackupOfLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege")
	}
	dir := treetest.MemoryDir(t)
	src, dst, outside := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "outside")
	pair := treetest.Linked("pair")
	treetest.Create(t, src, treetest.Dir{
		"one": treetest.File("pair", pair), "two": treetest.File("pair", pair),
		"symlink": treetest.Symlink("new"), "file": treetest.File("file"),
		"sub": treetest.Dir{"inside": treetest.File("x")},
	})
	treetest.Create(t, outside, treetest.Dir{"inside": treetest.File("outside")})
	treetest.Create(t, dst, treetest.Dir{
		"one": treetest.File("first"), "two": treetest.File("second"),
		"symlink": treetest.Symlink("old"), "file": treetest.Symlink("../outside/inside"),
		"sub": treetest.Symlink("../outside"),
	})
	out := runReported(t, backedUpTo("old", src, dst))
	require.Empty(t, out.bad())
	require.EqualValues(t, 5, out.summary.Targets[0].BackedUp)
	treetest.Compare(t, src, dst, treetest.Options{Ignore: []string{"SHA256SUMS", "old"}})
	require.Equal(t, map[string]string{"one": "first", "two": "second"}, contents(t, filepath.Join(dst, "old")))
	for name, want := range map[string]string{"symlink": "old", "file": "../outside/inside", "sub": "../outside"} {
		target, err := os.Readlink(filepath.Join(dst, "old", name))
		require.NoError(t, err)
		require.Equal(t, want, target)
	}
	require.Equal(t, map[string]string{"inside": "outside"}, contents(t, outside))
}

// A dry run counts what would be kept, and makes nothing.
func TestBackupInADryRun(t *testing.T) {
	t.Parallel()
	src, dst := oldAndNew(t)
	before := contents(t, dst)
	o := backedUpTo("old", src, dst)
	o.DryRun = true
	out := runReported(t, o)
	require.EqualValues(t, 2, out.summary.Targets[0].BackedUp)
	require.Equal(t, before, contents(t, dst))
	require.NoDirExists(t, filepath.Join(dst, "old"))
}

// A file that cannot be kept is not replaced.
func TestBackupFailureLeavesTheFile(t *testing.T) {
	t.Parallel()
	for _, op := range []fsys.Op{fsys.OpLink, fsys.OpMkdir, fsys.OpSync} {
		src, dst := oldAndNew(t)
		require.NoError(t, os.Mkdir(filepath.Join(dst, "old"), 0o755))
		inBackup := func(c fsys.Call) bool {
			return c.Op == op && (strings.Contains(c.Path, "/old") || op == fsys.OpLink && (c.Name == "a" || c.Name == "b"))
		}
		o := backedUpTo("old", src, dst)
		o.FS = &fsys.FS{Fault: faultfs.When(inBackup, faultfs.Fail(syscall.EPERM))}
		o.Sync = dest.SyncEnd
		out := runReported(t, o)
		bad := out.bad()
		require.NotEmpty(t, bad, op)
		for _, e := range bad {
			require.Equal(t, event.Failed, e.Kind)
			require.ErrorContains(t, e.Err, "cannot be kept")
			have, err := os.ReadFile(filepath.Join(dst, e.Path))
			require.NoError(t, err)
			require.Contains(t, string(have), "old", "%s is as it was", e.Path)
		}
		if op != fsys.OpMkdir { // a has no directory there
			require.Len(t, bad, 2)
			require.Zero(t, out.summary.Targets[0].BackedUp)
			require.Zero(t, out.summary.Replaced)
		}
	}
}

func TestBackupRefused(t *testing.T) {
	t.Parallel()
	notADirectory := "not a directory"
	if runtime.GOOS == "windows" { // opening a file as a directory fails in the same way as a link
		notADirectory = "is a link or a file"
	}
	for name, c := range map[string]struct {
		backup  string
		prepare func(t *testing.T, dst string)
		want    string
	}{
		"a file": {backup: "old/x", prepare: func(t *testing.T, dst string) { write(t, dst, "old", nil, since) }, want: notADirectory},
		"a link": {backup: "old", prepare: func(t *testing.T, dst string) {
			needsSymlinks(t)
			require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dst, "old")))
		}, want: "is a link or a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := oldAndNew(t)
			if c.prepare != nil {
				c.prepare(t, dst)
			}
			before := look(t, dst)
			o := backedUpTo(c.backup, src, dst)
			_, err := Run(t.Context(), &o, &counters.Set{})
			var refused *failure.RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, c.want)
			after := look(t, dst)
			delete(before, ".") // the journal was made and removed
			delete(after, ".")
			require.Equal(t, before, after)
		})
	}
}

// The power is cut before each operation; in the short form before every seventh, with one kind
// of loss. Each file that was there before the copy then has a name, in its place or in the
// backup directory. The next run completes the copy and keeps each file once.
func TestBackupPowerCutAtEachOperation(t *testing.T) {
	t.Parallel()
	for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile} {
		for _, all := range []bool{true, false} {
			t.Run(fmt.Sprint(sync, ", all at once: ", all), func(t *testing.T) {
				t.Parallel()
				c := &backupCut{sync: sync, all: all, dir: treetest.MemoryDir(t), stride: sweepStride(7)}
				c.sweep(t)
			})
		}
	}
}

type backupCut struct {
	sync   dest.SyncMode
	all    bool
	dir    string
	stride int64
}

// copyTo copies to base/dst through disk.
func (c *backupCut) copyTo(t testing.TB, base string, sys *fsys.FS) error {
	o := sweepOptions(filepath.Join(c.dir, "src"), []string{filepath.Join(base, "dst")}, c.sync)
	o.BackupDir, o.Policy, o.FS, o.checkEvery, o.DirtyWindow = "old/x", policy.Update, sys, time.Hour, DirtyWindowOff
	return clean(Run(t.Context(), &o, &counters.Set{}))
}

func (c *backupCut) sweep(t *testing.T) {
	write(t, filepath.Join(c.dir, "src"), "a", []byte("new a"), since)
	write(t, filepath.Join(c.dir, "src"), "d/e/b", []byte("new b"), since)
	write(t, filepath.Join(c.dir, "src"), "d/e/c", []byte("new c"), since)
	var mu sync.Mutex
	next, ended := int64(0), false
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				mu.Lock()
				n := next
				next += c.stride
				stop := ended
				mu.Unlock()
				if stop || t.Failed() {
					return
				}
				if c.try(t, n) {
					mu.Lock()
					ended = true
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	require.Greater(t, next, int64(30)) // Windows needs fewer operations
}

func (c *backupCut) try(t *testing.T, n int64) (ended bool) {
	dir := filepath.Join(c.dir, fmt.Sprint("at", n))
	defer treetest.Remove(t, dir)
	base := filepath.Join(dir, "disk")
	dst := filepath.Join(base, "dst")
	for name, content := range map[string]string{"a": "old a", "d/e/b": "old b", "d/e/c": "old c"} {
		write(t, dst, name, []byte(content), longAgo)
	}
	disk, err := faultfs.NewDisk(base, c.all)
	if err != nil {
		t.Error(err)
		return true
	}
	ended = c.copyTo(t, base, &fsys.FS{Disk: disk, Fault: disk.CutAt(n)}) == nil
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i, survives := range []func() bool{nil, func() bool { return r.IntN(2) == 0 }, func() bool { return true }} {
		if !everyInstant() && int64(i) != n/c.stride%3 {
			continue
		}
		into := filepath.Join(dir, fmt.Sprint("left", i))
		if err := disk.Lose(into, survives); err != nil {
			t.Error(err)
			continue
		}
		c.judge(t, into, fmt.Sprintf("cut at operation %d, survivors %d", n, i))
	}
	return ended
}

// judge checks the destination in base after a power cut, and after the next run.
func (c *backupCut) judge(t *testing.T, base, what string) {
	left, err := regularFiles(filepath.Join(base, "dst"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range []string{"a", "d/e/b", "d/e/c"} {
		old := "old " + filepath.Base(path)
		if string(left[path]) != old && string(left["old/x/"+path]) != old {
			t.Errorf("%s: %s is lost", what, path)
		}
	}
	again, err := faultfs.NewDisk(base, true)
	if err != nil {
		t.Error(err)
		return
	}
	if err := c.copyTo(t, base, &fsys.FS{Disk: again}); err != nil {
		t.Errorf("%s: the next run: %v", what, err)
	}
	have, err := regularFiles(filepath.Join(base, "dst"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range []string{"a", "d/e/b", "d/e/c"} {
		name := filepath.Base(path)
		if string(have[path]) != "new "+name || string(have["old/x/"+path]) != "old "+name {
			t.Errorf("%s, after the next run: %s is %q, its backup %q", what, path, have[path], have["old/x/"+path])
		}
	}
}

// A run that is killed before any of its operations leaves no temporary behind when the same command
// has completed the copy.
func TestBackupKilledAtEachOperation(t *testing.T) {
	t.Parallel()
	base := treetest.MemoryDir(t)
	write(t, filepath.Join(base, "src"), "d/a", []byte("new a"), since)
	for n, ended := int64(1), false; !ended; n++ {
		dst := filepath.Join(base, fmt.Sprint("dst", n))
		write(t, dst, "d/a", []byte("old a"), longAgo)
		o := sweepOptions(filepath.Join(base, "src"), []string{dst}, dest.SyncEnd)
		o.BackupDir, o.Policy = "old", policy.Update
		f := &faulty{}
		f.armed.Store(true)
		o.FS = &fsys.FS{Fault: f.from(n)}
		if ended = clean(Run(t.Context(), &o, &counters.Set{})) == nil; ended {
			require.Greater(t, n, int64(30))
			break
		}
		o.FS = nil
		require.NoError(t, clean(Run(t.Context(), &o, &counters.Set{})))
		require.NoError(t, filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
			require.False(t, strings.HasPrefix(d.Name(), fsys.Reserved), "killed before operation %d, %v %q: %s", n, f.at.Load().Op, f.at.Load().Name, path)
			return err
		}))
	}
}

// Another process replaces a backup directory by a link to the outside while files are kept.
// Nothing is written outside: the file is kept beside the link, or not replaced.
func TestBackupExchangedForALink(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "symbolic links and names as they are")
	for victim, kept := range map[string]string{"old": "", "old/d": "old/d.~1~/e/b", "old/d/e": "old/d/e.~1~/b"} {
		src, dst := oldAndNew(t)
		outside := filepath.Join(filepath.Dir(dst), "outside")
		require.NoError(t, os.MkdirAll(filepath.Join(outside, "d", "e"), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(dst, "old/d/e"), 0o755))
		var once sync.Once
		o := backedUpTo("old", src, dst)
		o.FS = &fsys.FS{Fault: faultfs.When(func(c fsys.Call) bool {
			return c.Op == fsys.OpCreate && strings.HasSuffix(c.Path, "dst/d/e") || c.Name == "b" && c.Op == fsys.OpStat
		}, func(fsys.Call) error {
			once.Do(func() {
				path := filepath.Join(dst, victim)
				if err := os.Rename(path, path+".moved"); err != nil {
					t.Error(err)
				}
				if err := os.Symlink(filepath.Join(outside, strings.TrimPrefix(victim, "old")), path); err != nil {
					t.Error(err)
				}
			})
			return nil
		})}
		out := runReported(t, o)
		require.NoError(t, filepath.WalkDir(outside, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				err = fmt.Errorf("%s was made", path)
			}
			return err
		}))
		have := contents(t, dst)
		if kept == "" {
			require.NotEmpty(t, out.bad(), victim)
			kept = "d/e/b"
		}
		require.Equal(t, "old b", have[kept], victim)
	}
}

// A file that this run has created and then replaces, because its source has changed, is not
// kept.
func TestBackupOfOwnWork(t *testing.T) {
	t.Parallel()
	r := &run{}
	r.opts = &Options{DryRun: true}
	for _, made := range []bool{false, true} {
		p := &transfer{target: &target{Destination: &dest.Destination{Backups: &dest.Backups{}}}, exists: true, made: made}
		require.NoError(t, r.keepOld(p))
		require.Equal(t, !made, p.backedUp)
	}
}
