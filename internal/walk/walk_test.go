package walk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// recorder is a visitor that notes every call in the order in which it was made.
type recorder struct {
	fs     *fsys.FS // that walkTree opens the tree with
	mu     sync.Mutex
	calls  []call
	failed map[string]error
	left   chan struct{} // closed when the root was left

	onEnter func(d *Dir) bool
	onEntry func(d *Dir, name string)
}

type call struct {
	what string // "enter", "entry", "leave"
	path string
}

func newRecorder() *recorder {
	return &recorder{failed: map[string]error{}, left: make(chan struct{})}
}

func (v *recorder) note(what, path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls = append(v.calls, call{what, path})
}

func (v *recorder) Enter(d *Dir) bool {
	v.note("enter", d.Path())
	return v.onEnter == nil || v.onEnter(d)
}

func (v *recorder) Entry(d *Dir, name string, _ fsys.Kind) {
	v.note("entry", d.Join(name))
	if v.onEntry != nil {
		v.onEntry(d, name)
	}
}

// found is for Options.Found: it demands that the entry is described.
func (v *recorder) found(d *Dir, name string, _ Place, info fsys.Info) {
	if info.ID == (fsys.ID{}) {
		panic(name + " is not described")
	}
	v.Entry(d, name, info.Kind)
}

func (v *recorder) Leave(d *Dir) {
	v.note("leave", d.Path())
	if d.Parent == nil {
		close(v.left)
	}
}

func (v *recorder) Failed(d *Dir, name string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path := d.Path()
	if name != "" {
		path = d.Join(name)
	}
	v.failed[path] = err
}

func (v *recorder) paths(what string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := []string{}
	for _, c := range v.calls {
		if c.what == what {
			list = append(list, c.path)
		}
	}
	return list
}

// walkTree walks the tree at path and waits until its root is left.
func walkTree(ctx context.Context, t require.TestingT, path string, limit int, v *recorder, o Options) {
	root := openRoot(t, v.fs, path, limit, v)
	Walk(ctx, root, o)
	<-v.left
}

func openRoot(t require.TestingT, sys *fsys.FS, path string, limit int, v Visitor) *Dir {
	d, err := sys.OpenRoot(path)
	require.NoError(t, err)
	info, err := d.Stat()
	require.NoError(t, err)
	return NewRoot(fsys.NewHandles(limit).Root(d), info, v)
}

// requireOrderly demands that directories are entered once before anything in
// them and left once after everything in them.
func requireOrderly(t require.TestingT, v *recorder) {
	v.mu.Lock()
	defer v.mu.Unlock()
	state := map[string]string{}
	for _, c := range v.calls {
		for up := c.path; up != ""; {
			up = up[:max(strings.LastIndexByte(up, '/'), 0)]
			require.Equal(t, "enter", state[up], "%s %q while its ancestor %q is not being visited", c.what, c.path, up)
		}
		switch c.what {
		case "enter":
			require.Empty(t, state[c.path], "%q entered again", c.path)
		case "leave":
			require.Equal(t, "enter", state[c.path], "leave %q", c.path)
		case "entry":
			require.Empty(t, state[c.path], "%q visited again", c.path)
		}
		state[c.path] = c.what
	}
	for path, last := range state {
		require.NotEqual(t, "enter", last, "%q was never left", path)
	}
}

// makeTree makes files, and directories where a path ends in a slash.
func makeTree(t require.TestingT, paths ...string) string {
	root, err := os.MkdirTemp(fast(), "walk")
	require.NoError(t, err)
	for _, p := range paths {
		full := filepath.Join(root, p)
		if strings.HasSuffix(p, "/") {
			require.NoError(t, os.MkdirAll(full, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, nil, 0o644))
	}
	return root
}

// fast is a place for trees that no device slows down.
func fast() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && runtime.GOOS == "linux" {
		return "/dev/shm"
	}
	return ""
}

func tree(t *testing.T, paths ...string) string {
	t.Helper()
	root := makeTree(t, paths...)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	return root
}

// Each entry has its place in the listing of the system, whichever goroutine reads it.
func TestPlacesAreThoseOfTheListing(t *testing.T) {
	paths := []string{"d/", "d/e/", "f/"}
	for i := range 3*shareSize + 7 {
		paths = append(paths, fmt.Sprintf("n%d", i), fmt.Sprintf("d/m%d", i%9))
	}
	root := tree(t, paths...)
	for _, workers := range []int{1, 5} {
		v := newRecorder()
		var mu sync.Mutex
		places := map[string]Place{}
		note := func(path string, place Place) {
			mu.Lock()
			defer mu.Unlock()
			places[path] = place
		}
		v.onEnter = func(d *Dir) bool {
			if d.Parent != nil {
				note(d.Path(), d.Place)
			}
			return true
		}
		walkTree(t.Context(), t, root, 8, v, Options{Workers: workers, Found: func(d *Dir, name string, place Place, info fsys.Info) {
			v.found(d, name, place, info)
			note(d.Join(name), place)
		}})
		want := map[string]Place{}
		for _, prefix := range []string{"", "d/", "d/e/", "f/"} {
			d, err := fsys.OpenRoot(filepath.Join(root, prefix))
			require.NoError(t, err)
			at := 0
			require.NoError(t, d.Each(func(name []byte, ino uint64, _ fsys.Kind) bool {
				want[prefix+string(name)] = Place{at, ino}
				at++
				return true
			}))
			d.Close()
		}
		require.Equal(t, want, places, "%d workers", workers)
	}
}

// The visitor gets the number of all listed entries, wanted or not.
func TestEntriesAreCounted(t *testing.T) {
	root := tree(t, "a", "b.o", "c.o", "d/1.o", "d/e/", "f/")
	rules := &filter.List{}
	require.NoError(t, rules.Exclude("*.o"))
	require.NoError(t, rules.Exclude("f"))
	v := &counting{recorder: newRecorder(), entries: map[string]int{}}
	r := openRoot(t, nil, root, 4, v)
	Walk(t.Context(), r, Options{Workers: 1, Filter: rules, Found: v.found})
	require.Equal(t, map[string]int{"": 5, "d": 2, "d/e": 0}, v.entries)
}

// counting notes how many entries directories had when they were left.
type counting struct {
	*recorder
	entries map[string]int
}

func (v *counting) Leave(d *Dir) {
	v.entries[d.Path()] = d.Entries
	v.recorder.Leave(d)
}

// For a visitor that only counts entries, a directory that cannot be opened exists.
func TestADirectoryThatCannotBeOpenedIsEntered(t *testing.T) {
	t.Parallel()
	root := tree(t, "a/1", "bad/2", "bad/c/3", "file", "gone/5", "z")
	for _, workers := range []int{1, 3} {
		for _, refused := range []bool{false, true} {
			sys := faultfs.New(func(op fsys.Op, name string) error {
				switch {
				case op == fsys.OpOpenDir && name == "bad":
					return syscall.EACCES
				case op == fsys.OpOpenDir && name == "gone", op == fsys.OpStat && name == "gone":
					return syscall.ENOENT
				}
				return nil
			})
			v := newRecorder()
			v.fs = sys
			v.onEnter = func(d *Dir) bool {
				if d.Path() != "bad" {
					return true
				}
				require.NotZero(t, d.Info.ID)
				_, err := d.Acquire()
				require.ErrorIs(t, err, syscall.EACCES)
				return !refused
			}
			walkTree(t.Context(), t, root, 4, v, Options{Workers: workers, Found: v.found})
			require.ElementsMatch(t, []string{"a/1", "file", "z"}, v.paths("entry"))
			require.ElementsMatch(t, []string{"", "a", "bad"}, v.paths("enter"))
			require.ElementsMatch(t, []string{"", "a", "bad"}, v.paths("leave"))
			require.ErrorIs(t, v.failed["gone"], fs.ErrNotExist)
			if refused {
				require.Len(t, v.failed, 1)
			} else {
				require.Len(t, v.failed, 2)
				require.ErrorIs(t, v.failed["bad"], syscall.EACCES)
			}
			requireOrderly(t, v)
			v = newRecorder()
			v.fs = sys
			root := openRoot(t, nil, root, 4, v)
			root.Info.ID.Dev++ // so that everything is on another device
			Walk(t.Context(), root, Options{Workers: workers, OneFileSystem: true, Found: v.found})
			require.NotContains(t, v.failed, "bad")
			require.Contains(t, v.paths("enter"), "bad")
		}
	}
}

// Entries that are listed before an error are visited.
func TestAListingThatBreaksOff(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("a removed directory ends in an error on Linux only")
	}
	var paths []string
	for i := range 6000 { // more than the system lists at once
		paths = append(paths, fmt.Sprintf("d/%d", i))
		if i%100 == 0 {
			paths = append(paths, fmt.Sprintf("d/sub%d/", i))
		}
	}
	for _, workers := range []int{1, 3} {
		root := tree(t, paths...)
		var once sync.Once
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpStat && name != "" {
				once.Do(func() { require.NoError(t, os.RemoveAll(root+"/d")) })
			}
			return nil
		})
		v := newRecorder()
		v.fs = sys
		walkTree(t.Context(), t, root, 4, v, Options{Workers: workers, Found: v.found})
		subdirs := 0
		for path, err := range v.failed {
			require.ErrorIs(t, err, fs.ErrNotExist)
			if strings.HasPrefix(path, "d/sub") {
				subdirs++
			}
		}
		require.Contains(t, v.failed, "d")
		require.NotZero(t, subdirs)
		requireOrderly(t, v)
	}
}

// Idle goroutines read entries of a large directory.
func TestALargeDirectoryIsShared(t *testing.T) {
	const workers = 3
	var paths []string
	for i := range 4 * shareSize {
		paths = append(paths, fmt.Sprint(i))
	}
	root := tree(t, paths...)
	v := newRecorder()
	var inside atomic.Int64
	met := make(chan struct{})
	walkTree(t.Context(), t, root, 4, v, Options{Workers: workers, Found: func(d *Dir, name string, place Place, info fsys.Info) {
		v.found(d, name, place, info)
		switch {
		case place.At == shareSize-1:
			for end := time.Now().Add(10 * time.Second); waiting() < workers-1 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			return
		case place.At < shareSize:
			return
		}
		if inside.Add(1) == 2 {
			close(met)
		}
		select {
		case <-met:
		case <-time.After(10 * time.Second):
			t.Error("one goroutine looks at everything")
		}
	}})
	require.ElementsMatch(t, paths, v.paths("entry"))
}

// waiting is how many goroutines have nothing to take.
func waiting() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	n := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "sync.(*Cond).Wait") && strings.Contains(stack, "walk.(*walker).take") {
			n++
		}
	}
	return n
}

// One listing wakes as many goroutines as there are batches in it.
func TestAllWorkersShareOneListing(t *testing.T) {
	const workers = 5
	var paths []string
	for i := range 2 * workers * batchSize {
		paths = append(paths, fmt.Sprint(i))
	}
	root := tree(t, paths...)
	v := newRecorder()
	var inside atomic.Int64
	met := make(chan struct{})
	v.onEntry = func(*Dir, string) {
		if inside.Add(1) == workers {
			close(met)
		}
		select {
		case <-met:
		case <-time.After(10 * time.Second):
			t.Error("some goroutines sleep on")
		}
	}
	walkTree(t.Context(), t, root, 4, v, Options{Workers: workers})
}

// drawTree draws a tree whose names are full of bytes around the slash.
func drawTree(t *rapid.T) []string {
	name := rapid.StringOfN(rapid.SampledFrom([]rune("ab!-.0 ~é")), 1, 3, -1).Filter(func(s string) bool {
		return s != "." && s != ".." && (runtime.GOOS != "windows" || strings.Trim(s, ". ") == s)
	})
	path := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "names"), "/") })
	isDir := map[string]bool{} // false: a file
	for _, p := range rapid.SliceOfN(path, 0, 25).Draw(t, "paths") {
		if _, taken := isDir[p]; taken {
			continue
		}
		ok := true
		for up := p; ; {
			i := strings.LastIndexByte(up, '/')
			if i < 0 {
				break
			}
			up = up[:i]
			if d, there := isDir[up]; there && !d {
				ok = false
			}
		}
		if !ok {
			continue
		}
		for i, c := range p {
			if c == '/' {
				isDir[p[:i]] = true
			}
		}
		isDir[p] = rapid.IntRange(0, 5).Draw(t, "kind") == 0
	}
	list := []string{}
	for p, d := range isDir {
		if d {
			p += "/"
		}
		list = append(list, p)
	}
	slices.Sort(list)
	return list
}

func split(tree []string) (files, dirs []string) {
	files, dirs = []string{}, []string{""}
	for _, p := range tree {
		if d, ok := strings.CutSuffix(p, "/"); ok {
			dirs = append(dirs, d)
		} else {
			files = append(files, p)
		}
	}
	slices.Sort(files)
	slices.Sort(dirs)
	return files, dirs
}

func TestOneWorkerMeetsPathsInByteOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := drawTree(t)
		root := makeTree(t, paths...)
		defer os.RemoveAll(root)
		v := newRecorder()
		walkTree(context.Background(), t, root, 16, v, Options{Workers: 1})
		files, _ := split(paths)
		require.Equal(t, files, v.paths("entry"))
		require.Empty(t, v.failed)
		requireOrderly(t, v)
	})
}

func TestEverythingIsVisitedOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	rapid.Check(t, func(t *rapid.T) {
		paths := drawTree(t)
		root := makeTree(t, paths...)
		defer os.RemoveAll(root)
		v := newRecorder()
		o := Options{Workers: rapid.IntRange(1, 8).Draw(t, "workers")}
		if rapid.Bool().Draw(t, "found") {
			o.Found = v.found
		}
		walkTree(context.Background(), t, root, rapid.IntRange(1, 8).Draw(t, "handles"), v, o)
		files, dirs := split(paths)
		require.ElementsMatch(t, files, v.paths("entry"))
		require.ElementsMatch(t, dirs, v.paths("enter"))
		require.ElementsMatch(t, dirs, v.paths("leave"))
		require.Empty(t, v.failed)
		requireOrderly(t, v)
	})
}

// Entries that are read during the listing obey the same filters, lists of paths and
// reserved names.
func TestTheSameIsFound(t *testing.T) {
	root := tree(t, "a/1.txt", "a/2.bin", "b/c/3.txt", "d.bin", ".sealift-x", "a/.sealift-journal/log", "e/")
	rules := &filter.List{}
	require.NoError(t, rules.Exclude("*.bin"))
	only, err := filter.ReadOnly(strings.NewReader("a\nd.bin\nb/c/3.txt\nb/none\n"), false)
	require.NoError(t, err)
	for _, o := range []Options{{}, {Filter: rules}, {Only: only}, {Filter: rules, Only: only}} {
		o.Workers, o.SkipReserved = 1, func(*Dir, string) {}
		visit := func(found bool) (entries, left, failed []string) {
			v, o := newRecorder(), o
			if found {
				o.Found = v.found
			}
			walkTree(t.Context(), t, root, 4, v, o)
			for path := range v.failed {
				failed = append(failed, path)
			}
			return v.paths("entry"), v.paths("leave"), failed
		}
		entries, left, failed := visit(false)
		gotEntries, gotLeft, gotFailed := visit(true)
		require.ElementsMatch(t, entries, gotEntries)
		require.ElementsMatch(t, left, gotLeft)
		require.ElementsMatch(t, failed, gotFailed)
	}
}

func TestAListingLargerThanOneBatch(t *testing.T) {
	var paths []string
	for i := range 5*batchSize + 3 {
		paths = append(paths, fmt.Sprintf("f%04d", i))
		if i%batchSize == 0 {
			paths = append(paths, fmt.Sprintf("f%04d-dir/in", i))
		}
	}
	root := tree(t, paths...)
	files, _ := split(paths)
	for _, workers := range []int{1, 4} {
		v := newRecorder()
		walkTree(context.Background(), t, root, 16, v, Options{Workers: workers})
		got := v.paths("entry")
		if workers > 1 {
			slices.Sort(got)
		}
		require.Equal(t, files, got)
		requireOrderly(t, v)
	}
}

func TestLeaveWaitsForDone(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := tree(t, "a/1", "a/b/2", "a/b/3", "c/4", "d/")
	v := newRecorder()
	var late sync.WaitGroup
	var mu sync.Mutex
	done := map[string]bool{} // directories from which a late worker has come back
	v.onEntry = func(d *Dir, name string) {
		d.Hold()
		late.Go(func() {
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
			v.note("entry", d.Join(name)+"/late") // must come before the directory is left
			mu.Lock()
			done[d.Path()] = true
			mu.Unlock()
			d.Done()
		})
	}
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 3})
	late.Wait()
	require.Len(t, done, 3)
	require.Equal(t, 5, len(v.paths("leave")))
	var left []string
	for _, c := range v.calls {
		up := c.path
		for up != "" && c.what == "entry" {
			up = up[:max(strings.LastIndexByte(up, '/'), 0)]
			require.NotContains(t, left, up, "%q was left before its entry was done with", up)
		}
		if c.what == "leave" {
			left = append(left, c.path)
		}
	}
	require.Equal(t, "", left[len(left)-1])
}

func TestEnterRefusing(t *testing.T) {
	root := tree(t, "a/1", "b/2", "b/c/3")
	v := newRecorder()
	v.onEnter = func(d *Dir) bool { return d.Name != "b" }
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 2})
	require.Equal(t, []string{"a/1"}, v.paths("entry"))
	require.ElementsMatch(t, []string{"", "a", "b"}, v.paths("leave"))
}

func TestCancellationAtAnyInstant(t *testing.T) {
	defer goleak.VerifyNone(t)
	var paths []string
	for i := range 120 {
		paths = append(paths, fmt.Sprintf("d%d/e%d/f%d", i%7, i%5, i), fmt.Sprintf("g%d", i))
	}
	root := tree(t, paths...)
	for _, c := range []struct {
		workers int
		found   bool
	}{{1, false}, {4, false}, {1, true}, {4, true}} {
		workers := c.workers
		for at := int64(0); at < 300; at += 1 + at/20 {
			before := openFiles(t)
			ctx, cancel := context.WithCancel(context.Background())
			if at == 0 {
				cancel()
			}
			var calls, until atomic.Int64 // until the end of the context
			var ended atomic.Bool
			v := newRecorder()
			step := func() {
				if ended.Load() {
					t.Error("Entry or Enter after Walk has returned")
				}
				if calls.Add(1) == at {
					cancel()
					until.Store(calls.Load()) // the others went on meanwhile
				}
			}
			v.onEnter = func(*Dir) bool { step(); return true }
			v.onEntry = func(*Dir, string) { step() }
			r := openRoot(t, nil, root, 3, v)
			o := Options{Workers: workers}
			if c.found {
				o.Found = v.found
			}
			Walk(ctx, r, o)
			ended.Store(true)
			<-v.left
			cancel()
			requireOrderly(t, v)
			if late := calls.Load() - until.Load(); until.Load() > 0 && late > int64(2*workers) {
				t.Errorf("%d calls after the cancellation", late)
			}
			require.Equal(t, before, openFiles(t), "descriptors")
		}
	}
}

func TestCancellationFromOutside(t *testing.T) {
	defer goleak.VerifyNone(t)
	var paths []string
	for i := range 400 {
		paths = append(paths, fmt.Sprintf("d%d/e%d/f%d", i%20, i%7, i))
	}
	root := tree(t, paths...)
	for range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		v := newRecorder()
		r := openRoot(t, nil, root, 5, v)
		go func() {
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
			cancel()
		}()
		Walk(ctx, r, Options{Workers: 4})
		<-v.left
		cancel()
		requireOrderly(t, v)
	}
}

// A visitor whose Entry waits for the end of the context must not hinder it.
func TestCancellationWhileAllWorkersAreBlocked(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := tree(t, "a/1", "b/2", "c/3", "d/4")
	ctx, cancel := context.WithCancel(context.Background())
	v := newRecorder()
	v.onEntry = func(*Dir, string) {
		cancel()
		<-ctx.Done()
	}
	walkTree(ctx, t, root, 4, v, Options{Workers: 3})
	requireOrderly(t, v)
}

func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	l, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(l)
}

// descriptorsOf walks and returns the most descriptors that it had open.
func descriptorsOf(t *testing.T, root string, limit, workers int, v *recorder) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("open descriptors are counted in /proc")
	}
	before := openFiles(t)
	var most atomic.Int64
	look := func() {
		if l, err := os.ReadDir("/proc/self/fd"); err == nil {
			n := int64(len(l))
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
		}
	}
	v.onEnter = func(*Dir) bool { look(); return true }
	v.onEntry = func(*Dir, string) { look() }
	walkTree(context.Background(), t, root, limit, v, Options{Workers: workers})
	require.Equal(t, before, openFiles(t), "descriptors after the walk")
	return int(most.Load()) - before
}

func TestDescriptorsOfADeepTree(t *testing.T) {
	defer goleak.VerifyNone(t)
	const depth, limit, workers = 3000, 8, 2
	root := tree(t)
	d, err := fsys.OpenRoot(root)
	require.NoError(t, err)
	for i := range depth { // by name: the path is longer than PATH_MAX
		p, err := d.Create(true)
		require.NoError(t, err)
		require.NoError(t, p.Commit(fmt.Sprintf("file-%d", i)))
		require.NoError(t, d.Mkdir("directory"))
		sub, err := d.OpenDir("directory")
		require.NoError(t, err)
		d.Close()
		d = sub
	}
	d.Close()
	v := newRecorder()
	most := descriptorsOf(t, root, limit, workers, v)
	require.Len(t, v.paths("entry"), depth)
	require.Len(t, v.paths("leave"), depth+1)
	require.Empty(t, v.failed)
	// Besides those kept: the root, a parent and a child in each worker's hands, and
	// the directory of /proc that each reads.
	require.LessOrEqual(t, most, limit+1+3*workers)
}

func TestDescriptorsOfAWideTree(t *testing.T) {
	defer goleak.VerifyNone(t)
	const limit, workers = 6, 4
	var paths []string
	for i := range 900 {
		paths = append(paths, fmt.Sprintf("d%d/e%d/f", i%30, i))
	}
	root := tree(t, paths...)
	v := newRecorder()
	most := descriptorsOf(t, root, limit, workers, v)
	require.Len(t, v.paths("entry"), 900)
	require.LessOrEqual(t, most, limit+1+3*workers)
	requireOrderly(t, v)
}

func TestADirectoryThatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			root := tree(t, "a/1", "bad/2", "bad/c/3", "d/4", "gone/5", "z")
			sys := faultfs.New(func(op fsys.Op, name string) error {
				switch {
				case op == fsys.OpOpenDir && name == "bad":
					return syscall.EACCES
				case op == fsys.OpOpenDir && name == "gone":
					return os.RemoveAll(filepath.Join(root, "gone"))
				}
				return nil
			})
			v := newRecorder()
			v.fs = sys
			walkTree(context.Background(), t, root, 4, v, Options{Workers: workers})
			require.ElementsMatch(t, []string{"a/1", "d/4", "z"}, v.paths("entry"))
			require.ElementsMatch(t, []string{"", "a", "d"}, v.paths("leave"))
			require.Len(t, v.failed, 2)
			require.ErrorIs(t, v.failed["bad"], syscall.EACCES)
			require.ErrorIs(t, v.failed["gone"], fs.ErrNotExist)
		})
	}
}

// An entry that has changed its kind since the listing is visited with the new kind.
func TestEntryThatChangesItsKind(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 3} {
		root, outside := tree(t, "a/file", "b/directory/gone", "c"), tree(t, "secret")
		var swap sync.Once
		var shut sync.Once
		sys := faultfs.New(func(op fsys.Op, name string) (err error) {
			switch {
			case op == fsys.OpStat && name == "file":
				swap.Do(func() {
					path := filepath.Join(root, "a", "file")
					err = errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in"), 0o700), os.WriteFile(filepath.Join(path, "in", "new"), nil, 0o600))
				})
			case op == fsys.OpOpenDir && name == "directory":
				shut.Do(func() {
					path := filepath.Join(root, "b", "directory")
					err = errors.Join(os.RemoveAll(path), os.Symlink(outside, path))
				})
			}
			return err
		})
		v := newRecorder()
		v.fs = sys
		walkTree(context.Background(), t, root, 4, v, Options{Workers: workers, Found: v.found})
		require.Empty(t, v.failed)
		require.ElementsMatch(t, []string{"a/file/in/new", "b/directory", "c"}, v.paths("entry"))
		require.ElementsMatch(t, []string{"", "a", "b", "a/file", "a/file/in"}, v.paths("enter"))
		requireOrderly(t, v)
	}
}

func TestAListingThatFailsIsReported(t *testing.T) {
	t.Parallel()
	root := tree(t, "a/1", "b/2", "c/3")
	for nth := range 4 {
		var listings atomic.Int64
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpList && listings.Add(1) == int64(nth)+1 {
				return syscall.EIO
			}
			return nil
		})
		v := newRecorder()
		v.fs = sys
		walkTree(context.Background(), t, root, 4, v, Options{Workers: 1})
		want := map[int][]string{0: {}, 1: {"b/2", "c/3"}, 2: {"a/1", "c/3"}, 3: {"a/1", "b/2"}}[nth]
		require.Equal(t, want, v.paths("entry"))
		require.Len(t, v.failed, 1)
		for path, err := range v.failed {
			require.Equal(t, []string{"", "a", "b", "c"}[nth], path)
			require.ErrorIs(t, err, syscall.EIO)
		}
		requireOrderly(t, v)
	}
}

// A directory that was closed to save descriptors and exchanged for another
// meanwhile is not followed.
func TestADirectoryExchangedWhileClosed(t *testing.T) {
	root := tree(t, "a/b/c/1", "other/b/c/evil")
	v := newRecorder()
	exchanged := false
	var err error
	v.onEntry = func(d *Dir, _ string) {
		if exchanged || d.Path() != "a/b/c" {
			return
		}
		exchanged = true
		require.NoError(t, os.Rename(filepath.Join(root, "a"), filepath.Join(root, "was")))
		require.NoError(t, os.Rename(filepath.Join(root, "other"), filepath.Join(root, "a")))
		_, err = d.Parent.Acquire() // closed by the limit
	}
	walkTree(context.Background(), t, root, 1, v, Options{Workers: 1})
	require.True(t, exchanged)
	require.ErrorIs(t, err, fsys.ErrMoved)
}

// The device is that of the root's description, so no mount is needed to see
// what happens at the border: foreign directories are entered, not listed.
func TestOneFileSystem(t *testing.T) {
	root := tree(t, "a/1", "b")
	for _, foreign := range []bool{false, true} {
		for _, found := range []bool{false, true} {
			v := newRecorder()
			opened := 0
			sys := faultfs.New(func(op fsys.Op, _ string) error {
				if op == fsys.OpOpenDir {
					opened++
				}
				return nil
			})
			d, err := sys.OpenRoot(root)
			require.NoError(t, err)
			opened = 0
			info, err := d.Stat()
			require.NoError(t, err)
			if foreign {
				info.ID.Dev++
			}
			o := Options{Workers: 1, OneFileSystem: true}
			if found {
				o.Found = v.found
			}
			Walk(context.Background(), NewRoot(fsys.NewHandles(4).Root(d), info, v), o)
			want := []string{"a/1", "b"}
			if foreign {
				want = want[1:]
			}
			require.ElementsMatch(t, want, v.paths("entry"))
			require.Equal(t, []string{"", "a"}, v.paths("enter"))
			require.Empty(t, v.failed)
			if foreign && found { // that could mount something
				require.Zero(t, opened)
			}
			requireOrderly(t, v)
		}
	}
}

func TestFilesFrom(t *testing.T) {
	t.Parallel()
	root := tree(t, "a/1", "a/2", "a/sub/3", "b/4", "b/5/6", "c", "d")
	only, err := filter.ReadOnly(strings.NewReader("a/2\nb\nc\nmissing\na/none/x\n"), false)
	require.NoError(t, err)
	var listings atomic.Int64
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpList {
			listings.Add(1)
		}
		return nil
	})
	v := newRecorder()
	v.fs = sys
	implied := map[string]bool{}
	v.onEnter = func(d *Dir) bool { implied[d.Path()] = d.Implied(); return true }
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 1, Only: only})
	require.Equal(t, []string{"a/2", "b/4", "b/5/6", "c"}, v.paths("entry"))
	require.Equal(t, map[string]bool{"": true, "a": true, "b": false, "b/5": false}, implied)
	require.Len(t, v.failed, 2)
	require.ErrorIs(t, v.failed["missing"], fs.ErrNotExist)
	require.ErrorIs(t, v.failed["a/none"], fs.ErrNotExist)
	require.EqualValues(t, 2, listings.Load(), "only what is wanted whole is listed")
	requireOrderly(t, v)
}

func TestReservedNamesAreReportedAndSkipped(t *testing.T) {
	root := tree(t, "a", ".sealift-journal/x", "s/.sealift-0.tmp", "s/b")
	v := newRecorder()
	var skipped []string
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 1, SkipReserved: func(d *Dir, name string) {
		skipped = append(skipped, d.Join(name))
	}})
	require.Equal(t, []string{"a", "s/b"}, v.paths("entry"))
	require.Equal(t, []string{".sealift-journal", "s/.sealift-0.tmp"}, skipped)
	v = newRecorder()
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 1})
	require.Len(t, v.paths("entry"), 4)
}

// Only the listings on the way down are in memory: a visitor that does not return keeps
// the walk from reading the rest of the tree.
func TestABlockedVisitorStopsTheWalk(t *testing.T) {
	defer goleak.VerifyNone(t)
	const depth = 3
	var paths []string
	for i := range 200 {
		paths = append(paths, fmt.Sprintf("d%03d/e/f", i))
	}
	root := tree(t, paths...)
	for _, workers := range []int{1, 4} {
		var listings atomic.Int64
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpList {
				listings.Add(1)
			}
			return nil
		})
		v := newRecorder()
		v.fs = sys
		inside, release := make(chan struct{}, 1000), make(chan struct{})
		v.onEntry = func(*Dir, string) {
			inside <- struct{}{}
			<-release
		}
		var walking sync.WaitGroup
		walking.Go(func() { walkTree(context.Background(), t, root, 8, v, Options{Workers: workers}) })
		for range workers {
			<-inside
		}
		time.Sleep(20 * time.Millisecond) // for a goroutine that continues by mistake
		require.LessOrEqual(t, listings.Load(), int64(workers*depth))
		require.Empty(t, inside)
		close(release)
		walking.Wait()
		require.Len(t, v.paths("entry"), 200)
	}
}

func TestJoinOfADeepPath(t *testing.T) {
	d := &Dir{}
	require.Empty(t, d.Path())
	require.Equal(t, "x", d.Join("x"))
	var want []string
	for i := range 150 {
		d = &Dir{Parent: d, Name: fmt.Sprint(i)}
		want = append(want, d.Name)
		require.Equal(t, strings.Join(want, "/"), d.Path())
		require.Equal(t, strings.Join(want, "/")+"/x", d.Join("x"))
	}
}

func TestAnUnknownKindIsLookedUp(t *testing.T) {
	t.Parallel()
	root := tree(t, "a/1", "b")
	only, err := filter.ReadOnly(strings.NewReader("a\nb\n"), false)
	require.NoError(t, err)
	sys := faultfs.New(func(op fsys.Op, name string) error {
		if op == fsys.OpStat && name == "a" {
			return syscall.EIO
		}
		return nil
	})
	v := newRecorder()
	v.fs = sys
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 1, Only: only})
	require.Equal(t, []string{"b"}, v.paths("entry"))
	require.True(t, errors.Is(v.failed["a"], syscall.EIO))
}
