package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
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
	sync       dest.SyncMode
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
		Records: Records{Hashes: []hash.Algorithm{hash.SHA256}}, Sync: c.sync, Preserve: metadata.PreserveAll, Resources: Resources{DirtyWindow: DirtyWindowOff, BlockSize: MinBlockSize, QueueSize: 2, Workers: 1, Memory: 1 << 20},
		FS: sys, forTests: forTests{checkEvery: time.Hour},
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
		if err := disk.Lose(into, survivors(seed, n)); err != nil {
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
// The cases have nearly the same operations. Each takes every sixteenth, with another
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
		{sync: dest.SyncEnd, flushesAll: true},
		{sync: dest.SyncEnd},
		{sync: dest.SyncEnd, flushesAll: true, few: true},
		{sync: dest.SyncFile},
		{sync: dest.SyncEnd, flushesAll: true, stopAt: 250},
		{sync: dest.SyncEnd, flushesAll: true, fails: "a"},
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
		for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile} {
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

// survivors chooses the operations without a flush that outlive a power cut before the n-th
// operation: with seed 0 none, otherwise half of them.
func survivors(seed uint64, n int64) func() bool {
	if seed == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	return func() bool { return r.IntN(2) == 0 }
}

// cutEach calls try with the operations first, first+stride and so on, as many at a time as there
// are processors. It ends when enough returns true, or after more than 20 complaints. ended is the
// number of runs that the power cut came too late for.
func cutEach(
	first, stride int64, enough func(n int64, ended int) bool, try func(n int64) (done bool, wrong []string),
) (wrong []string, ended int) {
	var mu sync.Mutex
	next := first
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				mu.Lock()
				n := next
				next += stride
				stop := len(wrong) > 20 || enough(n, ended)
				mu.Unlock()
				if stop {
					return
				}
				done, w := try(n)
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
	return wrong, ended
}

// shortStride is how many operations apart the power is cut in the short form.
const shortStride = 16

// sweep cuts the power before the operation first and every stride-th one after it.
func (c *cutCase) sweep(t *testing.T, first, stride int64) {
	dir := treetest.MemoryDir(t)
	treetest.Create(t, filepath.Join(dir, "old"), cutTree(true))
	whole := filepath.Join(dir, "whole")
	require.NoError(t, os.Mkdir(whole, 0o755))
	disk, err := c.copyUntil(t, whole, 1<<40)
	require.NoError(t, err)
	last := disk.Calls()
	// The number of operations varies a little.
	enough := func(n int64, ended int) bool { return n > last && ended > 0 || n > 2*last }
	// The operations before stopAt belong to another case.
	wrong, ended := cutEach(c.stopAt+first, stride, enough, func(n int64) (bool, []string) {
		own := filepath.Join(dir, fmt.Sprint(n))
		defer treetest.Remove(t, own)
		return c.try(t, own, n)
	})
	t.Logf("%d operations", last)
	if len(wrong) > 0 {
		t.Fatal(strings.Join(wrong, "\n"))
	}
	require.Positive(t, ended, "no run has ended")
}
