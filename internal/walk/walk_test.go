package walk

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

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
	const temp = ".sealift-0123456789abcdef.tmp"
	own := []string{"a", ".sealift-notes/x", "s/.sealift-journal/x", "s/SEALIFT-INCOMPLETE-a.txt", "s/.sealift-0.tmp", "s/.sealift-bad-x"}
	reserved := []string{".sealift-journal/x", ".sealift-a.journal/x", "SEALIFT-INCOMPLETE-a.txt", "s/" + temp, "s/._" + temp, ".sealift-0123456789abcdef-01234567.tmp"}
	root := tree(t, append(own, reserved...)...)
	v := newRecorder()
	var skipped []string
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 1, SkipReserved: func(d *Dir, name string) {
		skipped = append(skipped, d.Join(name))
	}})
	require.ElementsMatch(t, own, v.paths("entry"))
	reserved[0], reserved[1] = ".sealift-journal", ".sealift-a.journal"
	require.ElementsMatch(t, reserved, skipped)
	v = newRecorder()
	walkTree(context.Background(), t, root, 4, v, Options{Workers: 1})
	require.Len(t, v.paths("entry"), len(own)+len(reserved))
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
