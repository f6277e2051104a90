package readback_test

import (
	"context"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/readback"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// files maps paths to contents.
type files map[string]string

func digest(content string) []byte {
	set := hash.NewSet([]hash.Algorithm{hash.SHA256})
	set.Write([]byte(content))
	return set.Digests()[0]
}

func (f files) lines() iter.Seq2[string, hash.Digests] {
	return func(yield func(string, hash.Digests) bool) {
		scratch := make([]byte, 32)
		for _, path := range slices.Sorted(maps.Keys(f)) {
			copy(scratch, digest(f[path]))
			if !yield(path, hash.Digests{scratch}) { // valid until the next path
				return
			}
		}
	}
}

// root makes a directory with the files and opens it.
func (f files) root(t *testing.T, sys *fsys.FS) *fsys.Dir {
	t.Helper()
	dir := t.TempDir()
	for path, content := range f {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600))
	}
	root, err := sys.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

// tree returns a destination on a device, with the lines of lists and the files of holds.
func tree(t *testing.T, sys *fsys.FS, device uint64, lists, holds files) readback.Tree {
	t.Helper()
	return readback.Tree{
		Counters: &counters.Work{},
		Root:     holds.root(t, sys), Device: device, Place: timing.Destination(int(device)), Lines: lists.lines(),
		SourceChanged: func(*fsys.Dir, fsys.Info, fsys.Info) bool { return false },
	}
}

// report collects findings by the tree and the path.
type report struct {
	sync.Mutex
	found map[int]map[string]readback.Kind
	errs  []error
	gone  bool // the result of Report
}

func (r *report) add(f readback.Finding) bool {
	r.Lock()
	defer r.Unlock()
	if r.found == nil {
		r.found = map[int]map[string]readback.Kind{}
	}
	if r.found[f.Tree] == nil {
		r.found[f.Tree] = map[string]readback.Kind{}
	}
	r.found[f.Tree][f.Path] = f.Kind
	r.errs = append(r.errs, f.Err)
	return r.gone
}

func run(ctx context.Context, o *readback.Options) ([]readback.Result, *report) {
	found := &report{}
	o.Hashes = []hash.Algorithm{hash.SHA256}
	o.Workers = max(o.Workers, 1)
	o.Sampler = timing.Start(10)
	defer o.Sampler.Stop()
	o.Pipe = &pipe.Pipe{Pool: pipe.NewPool(4096, 1<<20), QueueSize: 2}
	o.Counters = &counters.Set{}
	if o.Report == nil {
		o.Report = found.add
	}
	results := readback.Run(ctx, o)
	for i := range results {
		slices.Sort(results[i].Bad)
	}
	return results, found
}

// Each tree has its own lines, and each finding names the tree that it is in.
func TestEachTreeIsComparedWithItsOwnLines(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, devices := range [][]uint64{{1, 1, 1}, {1, 2, 1}, {1, 2, 3}} {
		good := files{"a": "1", "d/b": "2", "d/c": "3"}
		bad := files{"a": "1", "d/b": "another", "z": "26"}
		o := &readback.Options{Workers: 2, Trees: []readback.Tree{
			tree(t, nil, devices[0], good, good),
			tree(t, nil, devices[1], files{"a": "1", "d/b": "2", "gone": "", "z": "26"}, bad),
			tree(t, nil, devices[2], files{}, bad),
		}}
		results, found := run(t.Context(), o)
		require.Equal(t, []int64{3, 2, 0}, []int64{results[0].Good, results[1].Good, results[2].Good})
		require.Empty(t, results[0].Bad)
		require.Equal(t, []string{"d/b", "gone"}, results[1].Bad)
		require.Equal(t, map[int]map[string]readback.Kind{1: {"d/b": readback.Differs, "gone": readback.Unreadable}}, found.found)
		_, err := o.Trees[1].Root.Lstat("d")
		require.NoError(t, err)
		d, err := o.Trees[1].Root.OpenDir("d")
		require.NoError(t, err)
		_, err = d.Lstat(readback.BadPrefix + "b")
		require.NoError(t, err, "a bad file is set aside")
		d.Close()
	}
}

// meeting makes readers wait for each other. No reader continues before all have arrived or
// the time is over.
type meeting struct {
	sync.Mutex
	missing int
	all     chan struct{}
}

func newMeeting(readers int) *meeting { return &meeting{missing: readers, all: make(chan struct{})} }

func (m *meeting) wait() error {
	m.Lock()
	if m.missing--; m.missing == 0 {
		close(m.all)
	}
	m.Unlock()
	select {
	case <-m.all:
		return nil
	case <-time.After(10 * time.Second):
		return context.DeadlineExceeded
	}
}

// Trees on different devices are read at the same time, and so is the source. No reader
// continues before each has opened its first file.
func TestDevicesAreReadAtTheSameTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	content := files{"a": "1", "b": "2"}
	start := newMeeting(3)
	sys := func() *fsys.FS {
		return faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpOpen && name == "a" {
				return start.wait()
			}
			return nil
		})
	}
	results, found := run(t.Context(), &readback.Options{
		Trees:  []readback.Tree{tree(t, sys(), 1, content, content), tree(t, sys(), 2, content, content)},
		Source: &readback.Source{Root: content.root(t, sys()), Device: 3, Full: true},
	})
	require.Empty(t, found.errs)
	require.EqualValues(t, 2, results[0].Good)
	require.EqualValues(t, 2, results[1].Good)
}

// Files on one device are read one after the other. The time of a tree does not contain that of another.
func TestOneDeviceIsReadByItsOwnWorkers(t *testing.T) {
	defer goleak.VerifyNone(t)
	content := files{}
	for i := range 50 {
		content[string(rune('A'+i))] = "x"
	}
	var under, most atomic.Int64
	sys := &fsys.FS{Fault: faultfs.OnOp(func(fsys.Call) error {
		most.Store(max(most.Load(), under.Add(1)))
		time.Sleep(100 * time.Microsecond)
		under.Add(-1)
		return nil
	}, fsys.OpOpen, fsys.OpRead)}
	begun := time.Now()
	results, found := run(t.Context(), &readback.Options{
		Trees:  []readback.Tree{tree(t, sys, 1, content, content), tree(t, sys, 1, content, content)},
		Source: &readback.Source{Root: content.root(t, sys), Device: 1, Full: true},
	})
	require.Empty(t, found.errs)
	require.EqualValues(t, 50, results[0].Good)
	require.EqualValues(t, 50, results[1].Good)
	require.EqualValues(t, 1, most.Load())
	require.Positive(t, results[0].Elapsed)
	require.Positive(t, results[1].Elapsed)
	require.LessOrEqual(t, results[0].Elapsed+results[1].Elapsed, time.Since(begun))
}

// If the source has another digest now, it is compared with each tree on any device, except
// if the file of the tree itself is wrong.
func TestTheSourceIsComparedWithTheTrees(t *testing.T) {
	defer goleak.VerifyNone(t)
	lists := files{"a": "1", "b": "2", "c": "3"}
	for _, devices := range [][]uint64{{1, 1, 1}, {1, 2, 2}, {1, 2, 3}} {
		results, found := run(t.Context(), &readback.Options{
			Workers: 2,
			Trees: []readback.Tree{
				tree(t, nil, devices[0], lists, lists),
				tree(t, nil, devices[1], lists, files{"a": "1", "b": "wrong", "c": "3"}),
			},
			Source: &readback.Source{Root: files{"a": "1", "b": "another"}.root(t, nil), Device: devices[2], Full: true},
		})
		require.Equal(t, map[int]map[string]readback.Kind{
			1:                  {"b": readback.Differs},
			readback.TheSource: {"b": readback.Differs, "c": readback.Unreadable},
		}, found.found)
		require.Len(t, found.errs, 3, "the tree that is wrong is reported once")
		for _, r := range results {
			require.EqualValues(t, 2, r.Good, "c was read well where it is")
			require.LessOrEqual(t, r.Cached, r.Good)
		}
		require.Empty(t, results[0].Bad, "it matches its line")
		require.Equal(t, []string{"b"}, results[1].Bad)
		require.True(t, slices.ContainsFunc(found.errs, func(err error) bool { return err.Error() == failure.ErrVanished.Error() }))
	}
}

// A source that has changed since the copy is reported, and the trees stay unchanged.
func TestAChangedSourceLeavesTheTrees(t *testing.T) {
	lists := files{"a": "1"}
	one := tree(t, nil, 1, lists, lists)
	one.SourceChanged = func(_ *fsys.Dir, there, source fsys.Info) bool { return there.Size != source.Size }
	results, found := run(t.Context(), &readback.Options{
		Trees:  []readback.Tree{one},
		Source: &readback.Source{Root: files{"a": "longer"}.root(t, nil), Device: 2, Full: true},
	})
	require.Equal(t, map[int]map[string]readback.Kind{readback.TheSource: {"a": readback.Changed}}, found.found)
	require.EqualValues(t, 1, results[0].Good)
	require.Empty(t, results[0].Bad)
}

// Run reads no more of a tree that is gone, and continues with the others.
func TestATreeThatIsGone(t *testing.T) {
	defer goleak.VerifyNone(t)
	lists := files{"a": "1", "b": "2", "c": "3"}
	for _, device := range []uint64{1, 2} {
		o := &readback.Options{Trees: []readback.Tree{
			tree(t, nil, 1, lists, files{}), tree(t, nil, device, lists, lists),
		}}
		found := &report{gone: true}
		o.Report = found.add
		results, _ := run(t.Context(), o)
		require.Len(t, found.errs, 1)
		require.True(t, results[0].Gone)
		require.False(t, results[1].Gone)
		require.EqualValues(t, 3, results[1].Good)
	}
}

// A stopped run ends, also while the workers of one device have nothing left to read.
func TestStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	content := files{}
	for _, path := range treetest.Pattern(100, 1) {
		content[string(rune('a'+path%26))+string(rune('a'+path/26))] = "x"
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var opened atomic.Int64
	slow := &fsys.FS{Fault: faultfs.OnOp(func(fsys.Call) error {
		if opened.Add(1) == 3 {
			cancel()
		}
		return nil
	}, fsys.OpOpen)}
	results, found := run(ctx, &readback.Options{
		Workers: 2,
		Trees:   []readback.Tree{tree(t, slow, 1, content, content), tree(t, nil, 2, content, content)},
	})
	require.Empty(t, found.errs)
	require.Less(t, opened.Load(), int64(10), "it went on reading")
	require.Empty(t, results[0].Bad)
}
