package incomplete

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// trees are the source of a job and its destination.
type trees struct {
	t        *testing.T
	src, dst string
	Job
}

func newTrees(t *testing.T, dst string) *trees {
	src := filepath.Join(t.TempDir(), "src")
	require.NoError(t, os.Mkdir(src, 0o755))
	root, err := new(fsys.FS).OpenRoot(dst)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return &trees{t, src, dst, Job{Root: root, Source: src, Filters: NoFilters}}
}

func (d *trees) mark() {
	d.t.Helper()
	var m Missing
	m.Add("a", "cause")
	require.NoError(d.t, d.Mark(&m))
}

func (d *trees) unmark() {
	d.t.Helper()
	require.NoError(d.t, d.Unmark())
}

func (d *trees) put(dir, name string, head Head) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(filepath.Join(dir, name), []byte(head.String()), 0o644))
}

// markers returns the source that each marker in the destination names, by the marker's
// name. The source is empty for an entry that is not a marker.
func (d *trees) markers() map[string]string {
	d.t.Helper()
	entries, err := os.ReadDir(d.dst)
	require.NoError(d.t, err)
	found := map[string]string{}
	for _, e := range entries {
		head, _, _ := Open(d.Root, e.Name())
		found[e.Name()] = head.Source
	}
	return found
}

const (
	first  = "SEALIFT-INCOMPLETE-src.txt"
	second = "SEALIFT-INCOMPLETE-src-2.txt"
)

// Two sources with the same last element have a marker each. Each job replaces and removes
// its own marker, under any name.
func TestMarkersOfTwoSources(t *testing.T) {
	dst := t.TempDir()
	a, b := newTrees(t, dst), newTrees(t, dst)
	for range 2 {
		a.mark()
		b.mark()
		require.Equal(t, map[string]string{first: quote.Name(a.src), second: quote.Name(b.src)}, a.markers())
	}
	a.unmark()
	a.unmark()
	require.Equal(t, map[string]string{second: quote.Name(b.src)}, b.markers())
	require.NoError(t, os.Rename(filepath.Join(dst, second), filepath.Join(dst, "SEALIFT-INCOMPLETE-of b.txt")))
	b.mark()
	require.Equal(t, map[string]string{first: quote.Name(b.src)}, b.markers())
	b.unmark()
	require.Empty(t, b.markers())
}

// A copy with filters keeps the marker of a copy without filters, and those of copies with
// other filters. A copy without filters owns all of them.
func TestMarkersOfJobsWithFilters(t *testing.T) {
	whole := newTrees(t, t.TempDir())
	one, two := *whole, *whole
	one.Filters, two.Filters = "1,2,false", "3,4,false"
	for _, job := range []*trees{whole, &one, &two} {
		job.mark()
	}
	require.Len(t, whole.markers(), 3)
	one.unmark()
	require.Len(t, whole.markers(), 2)
	one.unmark()
	require.Contains(t, whole.markers(), first)
	require.Len(t, whole.markers(), 2)
	whole.unmark()
	require.Empty(t, whole.markers())
}

// A job never replaces or removes an entry only because of its name.
func TestAMarkerOverwritesNothing(t *testing.T) {
	d := newTrees(t, t.TempDir())
	name := func(number int) string { return Name(d.src, number) }
	require.NoError(t, os.Mkdir(filepath.Join(d.dst, name(1)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(d.dst, name(2)), []byte("a text of the user"), 0o644))
	d.put(d.dst, name(3), Head{Source: "'/elsewhere/src'", Filters: NoFilters})
	free := 4
	if runtime.GOOS != "windows" { // links need a privilege on Windows
		require.NoError(t, os.Symlink("nowhere", filepath.Join(d.dst, name(4))))
		require.NoError(t, os.Symlink(name(6), filepath.Join(d.dst, name(5)))) // to a marker of this job
		free = 6
	}
	look := func() map[string]string {
		found := map[string]string{}
		entries, err := os.ReadDir(d.dst)
		require.NoError(t, err)
		for _, e := range entries {
			text, _ := os.ReadFile(filepath.Join(d.dst, e.Name()))
			found[e.Name()] = e.Type().String() + " " + string(text)
		}
		return found
	}
	before := look()
	for range 2 {
		d.mark()
		now := look()
		require.Contains(t, now[name(free)], "Missing: 1\n")
		require.Len(t, now, free)
	}
	d.unmark()
	require.Equal(t, before, look())
}

// If the device cannot describe a marker, at whatever time, Mark and Unmark report that and
// leave the marker.
func TestAMarkerThatCannotBeExamined(t *testing.T) {
	for _, job := range []func(*trees) error{
		func(d *trees) error { return d.Unmark() },
		func(d *trees) error { return d.Mark(&Missing{Cut: true}) },
	} {
		for number := 1; ; number++ {
			d := newTrees(t, t.TempDir())
			d.mark()
			boom := errors.New("boom")
			described := 0
			d.Root.FS().Fault = func(c fsys.Call) error {
				if c.Op == fsys.OpStat && c.Name == first {
					if described++; described == number {
						return boom
					}
				}
				return nil
			}
			err := job(d)
			d.Root.FS().Fault = nil
			if described < number {
				require.NoError(t, err)
				require.Greater(t, number, 1)
				break
			}
			require.ErrorIs(t, err, boom)
			require.Equal(t, map[string]string{first: quote.Name(d.src)}, d.markers())
		}
	}
}

// With Sync, the marker is synced before it gets its name, and the directory after that.
func TestMarkersAreSynced(t *testing.T) {
	d := newTrees(t, t.TempDir())
	var ops []string
	var fail error
	d.Root.FS().Fault = func(c fsys.Call) error {
		switch c.Op {
		case fsys.OpSync:
			ops = append(ops, "sync")
			return fail
		case fsys.OpLink, fsys.OpRename:
			ops = append(ops, "name")
		case fsys.OpRemove:
			ops = append(ops, "remove")
		}
		return nil
	}
	taken := func() (list []string) {
		list, ops = slices.Compact(ops), nil // a name may need several operations
		return list
	}
	d.mark()
	d.unmark()
	require.NotContains(t, taken(), "sync")
	d.Sync = true
	d.mark()
	require.Equal(t, []string{"sync", "name", "sync"}, taken())
	d.unmark()
	require.Equal(t, []string{"remove", "sync"}, taken())
	d.unmark()
	require.Empty(t, taken())
	fail = errors.New("boom")
	err := d.Mark(&Missing{Cut: true})
	require.ErrorIs(t, err, fail)
	require.ErrorContains(t, err, "cannot write "+quote.Name(first)+": ")
	require.Empty(t, d.markers())
}
