package engine

import (
	"context"
	"crypto/sha256"
	"errors"
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
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// cutTree returns the source. If old is true, it returns the content of the first destination before
// the copy.
func cutTree(old bool) treetest.Dir {
	at := treetest.Mtime(time.Unix(1_600_000_000, 0))
	file := func(size int, seed byte, options ...treetest.Option) treetest.Node {
		return treetest.File(string(treetest.Pattern(size, seed)), append(options, at)...)
	}
	if old {
		return treetest.Dir{
			"kept": file(70, 40),
			"d": treetest.Dir{
				"replaced": treetest.File("old", treetest.Mtime(time.Unix(1_500_000_000, 0))),
				"same":     file(300, 5),
			},
		}
	}
	d := treetest.Dir{
		"big":      file(3*MinBlockSize+123, 3),
		"e":        treetest.Directory(treetest.Dir{"deep": file(50, 6)}, at),
		"replaced": file(200, 4),
		"same":     file(300, 5),
	}
	tree := treetest.Dir{"a": file(100, 1), "d": treetest.Directory(d, at), "empty": file(0, 2)}
	pair := treetest.Linked("pair")
	tree["link"], d["link"] = file(400, 7, pair), file(400, 7, pair)
	if runtime.GOOS != "windows" { // which needs a privilege for it
		tree["symlink"] = treetest.Symlink("d/big", at)
	}
	return tree
}

// cutCase is a copy of which the power is cut at each operation.
type cutCase struct {
	sync       SyncMode
	flushesAll bool   // one call flushes the whole disk
	stopAt     int64  // the operation before which it is stopped and begun again; 0 for none
	fails      string // the name of a file of the source that cannot be opened
	few        bool   // the source has so few files that each is synced separately

	src   string
	files map[string][]byte // regular files of src
}

// manifestLines returns a manifest of the files at the paths below root.
func manifestLines(t testing.TB, root string, paths ...string) []byte {
	t.Helper()
	var lines []byte
	for _, p := range paths {
		content, err := os.ReadFile(filepath.Join(root, p))
		require.NoError(t, err)
		sum := sha256.Sum256(content)
		lines = fmt.Appendf(lines, "%x  %s\n", sum, p)
	}
	return lines
}

func (c *cutCase) options(base string, sys *fsys.FS) *Options {
	return &Options{
		Source: c.src, Targets: []string{filepath.Join(base, "one"), filepath.Join(base, "two")},
		Hashes: []hash.Algorithm{hash.SHA256}, Sync: c.sync, Preserve: PreserveAll, DirtyWindow: DirtyWindowOff,
		BlockSize: MinBlockSize, QueueSize: 2, Workers: 1, Memory: 1 << 20, FS: sys, checkEvery: time.Hour,
	}
}

// clean returns nil after a run with exit code 0, and an error otherwise.
func clean(s *Summary, err error) error {
	if err == nil && s.Errors+s.Mismatches+s.Conflicts > 0 {
		err = fmt.Errorf("%d errors, %d mismatches, %d conflicts", s.Errors, s.Mismatches, s.Conflicts)
	}
	return err
}

// copyUntil copies to the destinations below base and cuts the power before the n-th
// operation. err is nil if the command has ended nevertheless, with 0 or with the failure
// that the case is about.
func (c *cutCase) copyUntil(t testing.TB, base string, n int64) (disk *faultfs.Disk, err error) {
	one := filepath.Join(base, "one")
	treetest.Create(t, one, cutTree(true))
	lines := manifestLines(t, one, "d/replaced", "d/same", "kept")
	if err := os.WriteFile(filepath.Join(one, "SHA256SUMS"), lines, 0o600); err != nil {
		return nil, err
	}
	if disk, err = faultfs.NewDisk(base, c.flushesAll); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := func(fsys.Call) error { cancel(); return nil }
	var open faultfs.OpenFiles
	sys := &fsys.FS{Disk: disk, Tracker: &open, Fault: disk.CutAt(n)}
	if c.stopAt > 0 {
		sys.Fault = faultfs.All(sys.Fault, faultfs.OnIndex(c.stopAt, stop))
		if s, err := Run(ctx, c.options(base, sys), &counters.Set{}); clean(s, err) == nil {
			return nil, errors.New("it was not stopped")
		}
	}
	if c.fails != "" {
		sys.Fault = faultfs.All(sys.Fault, faultfs.OnOp(faultfs.OnName(c.fails, faultfs.Fail(syscall.EACCES)), fsys.OpOpen))
	}
	s, err := Run(t.Context(), c.options(base, sys), &counters.Set{})
	if c.fails == "" || disk.Calls() > n || s == nil || s.Errors != 1 {
		err = clean(s, err)
	}
	if left := open.Left(); len(left) > 0 {
		return nil, fmt.Errorf("left open: %s", strings.Join(left, "\n"))
	}
	return disk, err
}

// judge returns the guarantees that do not hold for a destination after a power cut.
func (c *cutCase) judge(dst string, old map[string][]byte) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if _, err := os.Stat(dst); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	have, err := regularFiles(dst)
	if err != nil {
		complain("%v", err)
	}
	matches := func(path string, digest []byte) bool {
		sum := sha256.Sum256(have[path])
		return have[path] != nil && string(digest) == string(sum[:])
	}
	for path, content := range have {
		name := filepath.Base(path)
		whole := string(content) == string(c.files[path]) || old[path] != nil && string(content) == string(old[path])
		switch {
		case strings.HasPrefix(path, resume.JournalName("")+"/log."):
			log, err := journal.Read(strings.NewReader(string(content)), int64(len(content)))
			if err != nil {
				continue // what is damaged is not trusted
			}
			for file := range c.files {
				if f, _, ok, err := log.File(file); ok && err == nil && !matches(file, f.Digests[0]) {
					complain("a checkpoint lists %s, which is not on the disk", file)
				}
			}
		case strings.Contains(path, fsys.Reserved):
		case name == "SHA256SUMS":
			lines := manifest.NewReader(strings.NewReader(string(content)), manifest.GNU, hash.SHA256)
			for {
				l, err := lines.Next()
				if err != nil {
					break
				}
				if !matches(l.Path, l.Digest) {
					complain("the manifest is wrong about %s", l.Path)
				}
			}
			if bad, _ := lines.Malformed(); bad > 0 {
				complain("the manifest is torn")
			}
		case incomplete.IsName(path):
			if _, err := incomplete.ReadHead(strings.NewReader(string(content)), int64(len(content))); err != nil {
				complain("the marker is torn: %v", err)
			}
		case whole:
		case c.sync == SyncFile:
			complain("%s is neither the old nor the new one, %d bytes", path, len(content))
		case !lostPart(content, c.files[path]):
			complain("%s holds what never was in it", path)
		}
	}
	return wrong
}

// lostPart reports whether have differs from content only by zeros and a missing end.
func lostPart(have, content []byte) bool {
	if len(have) > len(content) {
		return false
	}
	for i, b := range have {
		if b != 0 && b != content[i] {
			return false
		}
	}
	return true
}

// regularFiles returns the content of the files below root by their paths.
func regularFiles(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	return files, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(path)
		if files[filepath.ToSlash(rel)] == nil {
			files[filepath.ToSlash(rel)] = []byte{}
		}
		return err
	})
}

// gaps returns the differences of destinations below base from a complete copy.
func (c *cutCase) gaps(base string, old map[string][]byte) (wrong []string) {
	for _, name := range []string{"one", "two"} {
		before := old
		if name == "two" {
			before = nil
		}
		for _, w := range c.gapsAt(filepath.Join(base, name), before) {
			wrong = append(wrong, name+": "+w)
		}
	}
	return wrong
}

// gapsAt returns the gaps of one destination, ignored names aside.
func (c *cutCase) gapsAt(dst string, old map[string][]byte, ignored ...string) []string {
	wrong, err := treetest.Diff(c.src, dst, treetest.Options{Ignore: append(ignored, "SHA256SUMS", "kept"), NoHoles: true})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	have, _ := regularFiles(dst)
	listed := 0
	lines := manifest.NewReader(strings.NewReader(string(have["SHA256SUMS"])), manifest.GNU, hash.SHA256)
	for l, err := lines.Next(); err == nil; l, err = lines.Next() {
		if c.files[l.Path] != nil {
			listed++
		} else if old[l.Path] == nil { // which may have lost its line: Lose has made it anew
			wrong = append(wrong, "the manifest lists "+l.Path)
		}
	}
	if string(have["kept"]) != string(old["kept"]) {
		wrong = append(wrong, "what the source lacks was not kept")
	}
	if listed != len(c.files) {
		wrong = append(wrong, fmt.Sprintf("the manifest lists %d files of %d", listed, len(c.files)))
	}
	return append(wrong, c.judge(dst, old)...)
}

// begun reports whether a copy has changed an entry of the destination. old is its content
// before.
func begun(dst string, old map[string][]byte) bool {
	missing := len(old)
	changed := filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dst {
			return err
		}
		rel, err := filepath.Rel(dst, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case strings.HasPrefix(rel, fsys.Reserved) && d.IsDir():
			return fs.SkipDir
		case strings.Contains(rel, fsys.Reserved), rel == "SHA256SUMS" && old != nil, rel == "d" && old != nil:
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil || old[rel] == nil || string(content) != string(old[rel]) {
			return errors.New("changed")
		}
		missing--
		return nil
	})
	return changed != nil || missing > 0
}

// unmarked reports whether a destination is incomplete and has neither a journal nor a marker.
func (c *cutCase) unmarked(dst string, old map[string][]byte) (bool, error) {
	root, err := fsys.OpenRoot(dst)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	signs, err := incomplete.Find(root)
	if err != nil || len(signs) > 0 || !begun(dst, old) {
		return false, err
	}
	return len(c.gapsAt(dst, old, resume.JournalName(""))) > 0, nil // without work it is no sign
}

// try cuts the power before the n-th operation. It judges several of the possible states afterwards.
// done says that the run had ended.
func (c *cutCase) try(t testing.TB, dir string, n int64) (done bool, wrong []string) {
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("cut at operation %d: ", n)+fmt.Sprintf(format, args...))
	}
	base := filepath.Join(dir, "disk")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return false, []string{err.Error()}
	}
	disk, err := c.copyUntil(t, base, n)
	if disk == nil {
		complain("%v", err)
		return false, wrong
	}
	done = err == nil
	old, _ := regularFiles(filepath.Join(dir, "..", "old"))
	seeds := []uint64{0, 1} // what was not flushed is lost: all of it, and half of it
	if !everyInstant() {
		seeds = seeds[n/shortStride%2:][:1]
	}
	for _, seed := range seeds {
		into := filepath.Join(dir, fmt.Sprint("left", seed))
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		survives := func() bool { return r.IntN(2) == 0 }
		if seed == 0 {
			survives = nil
		}
		if err := disk.Lose(into, survives); err != nil {
			complain("%v", err)
			continue
		}
		if done && c.fails == "" {
			for _, w := range c.gaps(into, old) {
				complain("seed %d, after exit 0: %s", seed, w)
			}
		}
		for _, name := range []string{"one", "two"} {
			before := old
			if name == "two" {
				before = nil
			}
			for _, w := range c.judge(filepath.Join(into, name), before) {
				complain("seed %d, %s: %s", seed, name, w)
			}
			if unmarked, err := c.unmarked(filepath.Join(into, name), before); err != nil || unmarked {
				complain("seed %d, %s: it is incomplete, and nothing says so: %v", seed, name, err)
			}
		}
		again, err := faultfs.NewDisk(into, true)
		if err != nil {
			complain("%v", err)
			continue
		}
		if err := clean(Run(t.Context(), c.options(into, &fsys.FS{Disk: again}), &counters.Set{})); err != nil {
			complain("seed %d: the next run: %v", seed, err)
			continue
		}
		for _, w := range c.gaps(into, old) {
			complain("seed %d, after the next run: %s", seed, w)
		}
	}
	return done, wrong
}

// The power is cut before each operation of a copy to two destinations, of which one
// has an earlier copy. Some or all of the unflushed data is lost. Then no manifest and no
// checkpoint lists lost files, and an incomplete copy has a journal or a marker. The same command
// completes the copy. A copy that ended with exit code 0 has lost nothing.
//
// The cases have nearly the same operations. Each takes every tenth, with another
// offset; with SEALIFT_SWEEP=all each takes every one, and loses both all of
// what was not flushed and half of it.
func TestPowerCutAtEachOperation(t *testing.T) {
	t.Parallel()
	needsSymlinks(t)
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	treetest.Create(t, src, cutTree(false))
	files, err := regularFiles(src)
	require.NoError(t, err)
	few := filepath.Join(dir, "few")
	treetest.Create(t, few, cutTree(false))
	for _, name := range []string{"link", "symlink", "d/link"} {
		require.NoError(t, os.Remove(filepath.Join(few, name)))
	}
	fewFiles, err := regularFiles(few)
	require.NoError(t, err)
	for i, c := range []cutCase{
		{sync: SyncEnd, flushesAll: true},
		{sync: SyncEnd},
		{sync: SyncEnd, flushesAll: true, few: true},
		{sync: SyncFile},
		{sync: SyncEnd, flushesAll: true, stopAt: 250},
		{sync: SyncEnd, flushesAll: true, fails: "a"},
	} {
		if c.src, c.files = src, files; c.few {
			c.src, c.files = few, fewFiles
		}
		t.Run(fmt.Sprint(c.sync, ", few: ", c.few, ", all at once: ", c.flushesAll, ", stopped: ", c.stopAt > 0, ", fails: ", c.fails != ""), func(t *testing.T) {
			t.Parallel()
			if everyInstant() {
				c.sweep(t, 0, 1)
			} else {
				c.sweep(t, int64(i), shortStride)
			}
		})
	}
}

// After a copy with exit code 0, a power cut restores no journal.
func TestPowerCutAfterTheJournalIsRemoved(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"", "a"} {
		for _, sync := range []SyncMode{SyncEnd, SyncFile} {
			dir := treetest.MemoryDir(t)
			src, base, left := filepath.Join(dir, "src"), filepath.Join(dir, "disk"), filepath.Join(dir, "left")
			treetest.Create(t, src, treetest.Dir{"a": treetest.File("a")})
			treetest.Create(t, base, treetest.Dir{"dst": treetest.Dir{}})
			disk, err := faultfs.NewDisk(base, true)
			require.NoError(t, err)
			c := &cutCase{sync: sync, src: filepath.Join(src, source)}
			o := c.options(base, &fsys.FS{Disk: disk})
			o.Targets = []string{filepath.Join(base, "dst")}
			s, err := Run(t.Context(), o, &counters.Set{})
			require.NoError(t, clean(s, err))
			require.NoError(t, disk.Lose(left, nil))
			entries, err := os.ReadDir(filepath.Join(left, "dst"))
			require.NoError(t, err)
			require.Len(t, entries, 2, "the copy and its manifest: %v", entries)
		}
	}
}

// shortStride is how many operations apart the power is cut in the short form.
const shortStride = 10

// sweep cuts the power before the operation first and every stride-th one after it.
func (c *cutCase) sweep(t *testing.T, first, stride int64) {
	dir := treetest.MemoryDir(t)
	treetest.Create(t, filepath.Join(dir, "old"), cutTree(true))
	whole := filepath.Join(dir, "whole")
	require.NoError(t, os.Mkdir(whole, 0o755))
	disk, err := c.copyUntil(t, whole, 1<<40)
	require.NoError(t, err)
	last := disk.Calls()
	var mu sync.Mutex
	var wrong []string
	ended := 0
	next := c.stopAt + first // what is before is another case's
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				mu.Lock()
				n := next
				next += stride
				// The number of operations varies a little.
				enough := len(wrong) > 20 || n > last && ended > 0 || n > 2*last
				mu.Unlock()
				if enough {
					return
				}
				own := filepath.Join(dir, fmt.Sprint(n))
				done, w := c.try(t, own, n)
				treetest.Remove(t, own)
				mu.Lock()
				wrong = append(wrong, w...)
				if done {
					ended++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d operations", last)
	if len(wrong) > 0 {
		t.Fatal(strings.Join(wrong, "\n"))
	}
	require.Positive(t, ended, "no run has ended")
}
