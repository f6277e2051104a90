package usage

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// sized is a tree with files of known sizes, and those of its directories.
func sized(t *testing.T, tree treetest.Dir) (root string, dir map[string]uint64) {
	t.Helper()
	root = filepath.Join(treetest.MemoryDir(t), "r")
	treetest.Create(t, root, tree)
	dir = map[string]uint64{}
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			info, err := (*fsys.FS)(nil).Lstat(p)
			require.NoError(t, err)
			rel, err := filepath.Rel(root, p)
			require.NoError(t, err)
			dir[filepath.ToSlash(rel)] = uint64(max(info.Size, 0))
		}
		return err
	}))
	return root, dir
}

func sizedFile(size int) treetest.Node { return treetest.File(strings.Repeat("x", size)) }

func TestDepths(t *testing.T) {
	root, dir := sized(t, treetest.Dir{"f": sizedFile(1), "a": treetest.Dir{"g": sizedFile(20), "b": treetest.Dir{"h": sizedFile(300), "c": treetest.Dir{"i": sizedFile(4000)}}}})
	c := dir["a/b/c"] + 4000
	b := dir["a/b"] + 300 + c
	a := dir["a"] + 20 + b
	want := map[string]uint64{"": dir["."] + 1 + a, "/f": 1, "/a": a, "/a/g": 20, "/a/b": b, "/a/b/h": 300, "/a/b/c": c, "/a/b/c/i": 4000}
	for _, files := range []bool{false, true} {
		for depth := -1; depth < 6; depth++ {
			got := take(t, Options{Paths: []string{root}, MaxDepth: depth, Files: files, Apparent: true})
			require.Equal(t, want[""], got.Total.Size)
			listed := map[string]uint64{}
			for _, e := range got.Entries {
				rel := strings.TrimPrefix(e.Path, root)
				require.Equal(t, strings.Count(rel, "/"), e.Depth)
				require.Equal(t, rel == "" || rel == "/a" || strings.HasSuffix(rel, "b") || strings.HasSuffix(rel, "c"), e.Kind == fsys.Directory)
				listed[rel] = e.Size
			}
			expected := map[string]uint64{}
			for rel, n := range want {
				if (depth < 0 || strings.Count(rel, "/") <= depth) && (files || !strings.ContainsAny(rel, "fghi")) {
					expected[rel] = n
				}
			}
			require.Equal(t, expected, listed, "depth %d", depth)
			require.Equal(t, root, got.Entries[len(got.Entries)-1].Path, "the path comes last")
		}
	}
}

func TestLinksCountOnce(t *testing.T) {
	pair := func() treetest.Node { return treetest.File("12345", treetest.Linked("p")) }
	root, dir := sized(t, treetest.Dir{"a": treetest.Dir{"x": pair(), "y": pair()}, "b": treetest.Dir{"z": pair()}})
	dirs := dir["."] + dir["a"] + dir["b"]
	for depth := -1; depth < 3; depth++ {
		got := take(t, Options{Paths: []string{root}, MaxDepth: depth, Apparent: true})
		require.Equal(t, dirs+5, got.Total.Size)
		got = take(t, Options{Paths: []string{root}, MaxDepth: depth, Apparent: true, CountLinks: true})
		require.Equal(t, dirs+15, got.Total.Size)
	}
	// Of two paths, the first has it.
	a, b := root+"/a", root+"/b"
	for _, depth := range []int{0, -1} {
		got := take(t, Options{Paths: []string{b, a}, MaxDepth: depth, Apparent: true})
		require.Equal(t, []string{fmt.Sprint(dir["b"]+5, " ", b), fmt.Sprint(dir["a"], " ", a)}, got.lines())
		got = take(t, Options{Paths: []string{root + "/a/x", b, root + "/b/z", a}, MaxDepth: depth, Apparent: true})
		require.Equal(t, []string{"5 " + root + "/a/x", fmt.Sprint(dir["b"], " ", b), fmt.Sprint(dir["a"], " ", a)}, got.lines())
	}
	// The listed names are those that count.
	got := take(t, Options{Paths: []string{root}, MaxDepth: -1, Apparent: true, Files: true})
	require.Len(t, got.Entries, 4)
	got = take(t, Options{Paths: []string{root}, MaxDepth: -1, Apparent: true, Files: true, CountLinks: true})
	require.Len(t, got.Entries, 6)
}

// Entries that several paths share count for the first of them.
func TestOverlappingPaths(t *testing.T) {
	root, dir := sized(t, treetest.Dir{"a": treetest.Dir{"b": treetest.Dir{"f": sizedFile(7)}, "g": sizedFile(70)}})
	paths := []string{root + "/a/b/f", root + "/a/b", root + "/a", root + "/a/g", root + "/a", root}
	got := take(t, Options{Paths: paths, Apparent: true})
	require.Equal(t, []string{
		"7 " + root + "/a/b/f", fmt.Sprint(dir["a/b"], " ", root, "/a/b"), fmt.Sprint(dir["a"]+70, " ", root, "/a"), fmt.Sprint(dir["."], " ", root),
	}, got.lines())
	require.Equal(t, dir["."]+dir["a"]+dir["a/b"]+77, got.Total.Size)
	// Unless links are counted: then no entry is remembered.
	got = take(t, Options{Paths: paths, Apparent: true, CountLinks: true})
	require.Len(t, got.Entries, 6)
	require.Equal(t, 7+dir["."]+3*(dir["a"]+70)+4*(dir["a/b"]+7)+70, got.Total.Size)
}

func TestSlashesAtTheEnd(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "/": "/", "//": "//", "///": "/", "a": "a", "a/": "a/", "a//": "a/", "a///": "a/", "a//b": "a//b", ".": ".",
	} {
		require.Equal(t, want, trim(given), given)
	}
	root, _ := sized(t, treetest.Dir{"f": sizedFile(7)})
	got := take(t, Options{Paths: []string{root + "//"}, MaxDepth: -1, Files: true})
	require.Equal(t, []string{root + "/f", root + "/"}, []string{got.Entries[0].Path, got.Entries[1].Path})
}

func TestFilters(t *testing.T) {
	root, dir := sized(t, treetest.Dir{"a": treetest.Dir{"x.o": sizedFile(1), "y": sizedFile(20)}, "b": treetest.Dir{"z": sizedFile(300)}})
	rules := &filter.List{}
	require.NoError(t, rules.Exclude("*.o"))
	require.NoError(t, rules.Exclude("b"))
	for depth := -1; depth < 3; depth++ {
		got := take(t, Options{Paths: []string{root}, MaxDepth: depth, Apparent: true, Filter: rules})
		require.Equal(t, dir["."]+dir["a"]+20, got.Total.Size)
	}
}

func TestMissingPaths(t *testing.T) {
	root, dir := sized(t, treetest.Dir{"f": sizedFile(7)})
	got := take(t, Options{Paths: []string{root + "/none//", root + "/f", root, root + "/f/"}, Apparent: true})
	require.Equal(t, []string{"7 " + root + "/f", fmt.Sprint(dir["."], " ", root)}, got.lines())
	require.Equal(t, []string{root + "/f/", root + "/none/"}, got.Failed)
	require.Equal(t, dir["."]+7, got.Total.Size)
}

func TestTop(t *testing.T) {
	tree := treetest.Dir{"equal-2": sizedFile(50), "equal-10": sizedFile(50), "equal": treetest.Dir{"e": sizedFile(50), "d": sizedFile(50)}}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		d := treetest.Dir{"big": sizedFile(r.IntN(5000))}
		for j := range 10 {
			d[fmt.Sprint("f", j)] = sizedFile(r.IntN(20) * 10)
		}
		d["pair"] = treetest.File("pair", treetest.Linked(fmt.Sprint("p", i%7)))
		tree[fmt.Sprint("d", i)] = treetest.Dir{"in": d, "on": sizedFile(r.IntN(300))}
	}
	root, _ := sized(t, tree)
	other, _ := sized(t, treetest.Dir{"only": sizedFile(3)})
	o := Options{Paths: []string{root, root + "/d1", other, other + "/only"}, Apparent: true}
	for _, links := range []bool{false, true} {
		for _, depth := range []int{-1, 0, 1, 2, 3} {
			o.MaxDepth, o.CountLinks, o.Files, o.Top = depth, links, true, 0
			all := take(t, o)
			o.Files = false // has nothing to say here
			for _, n := range []int{1, 2, 3, 10, 57, 100_000} {
				o.Top = n
				got := take(t, o)
				require.Equal(t, topOf(all.Entries, n), got.Entries, "%d, depth %d", n, depth)
				require.Equal(t, all.Total.Size, got.Total.Size)
			}
		}
	}
}

// Of equal entries the first path is chosen, in whatever order they come.
func TestTopOfEqualEntries(t *testing.T) {
	dir := &node{}
	sub := &node{parent: dir, name: "m", depth: 1}
	names := []string{"a", "b", "c", "d", "e", "x", "y", "z"}
	for range 200 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		top := &top{size: 4}
		for _, name := range names {
			at := dir
			if name < "c" {
				at = sub // "m/a"
			}
			top.offer(candidate{file{name: name, kind: fsys.Regular, Amount: Amount{Size: 7}}, at})
		}
		var got []string
		for _, c := range top.largest() {
			got = append(got, c.path())
		}
		require.Equal(t, []string{"c", "d", "e", "m/a"}, got)
	}
}

// Paths are compared as the strings that they are never made into.
func TestComparisonOfPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dirs := []*node{{}}
		var all []candidate
		for range rapid.IntRange(2, 20).Draw(t, "entries") {
			dir := rapid.SampledFrom(dirs).Draw(t, "in")
			name := rapid.StringMatching("[a.0/]{1,3}").Draw(t, "name")
			name = strings.ReplaceAll(name, "/", "-") // it and "." come before "/", 0 and "a" behind
			if slices.ContainsFunc(all, func(c candidate) bool { return c.dir == dir && c.name == name }) {
				continue
			}
			all = append(all, candidate{file{name: name}, dir})
			dirs = append(dirs, &node{parent: dir, name: name, depth: dir.depth + 1})
		}
		for _, a := range all {
			for _, b := range all {
				require.Equal(t, strings.Compare(a.path(), b.path()), compareCandidates(a, b), "%q and %q", a.path(), b.path())
			}
		}
	})
}

// Entries are visited by inode within a batch of 100,000 if that has more than 10,000.
// Otherwise, and between batches, they are visited in the order of the listing.
func TestEntriesAreVisitedInBatches(t *testing.T) {
	for _, c := range []struct {
		name          string
		entries       int
		byInode       bool
		first, second walk.Place
	}{
		{"few", 10_000, true, walk.Place{At: 3, Ino: 9}, walk.Place{At: 4, Ino: 8}},
		{"more", 10_001, true, walk.Place{At: 4, Ino: 8}, walk.Place{At: 3, Ino: 9}},
		{"more, where inodes are no use", 10_001, false, walk.Place{At: 3, Ino: 9}, walk.Place{At: 4, Ino: 8}},
		{"the first batch", 100_001, true, walk.Place{At: 99_999, Ino: 8}, walk.Place{At: 3, Ino: 9}},
		{"two batches", 110_001, true, walk.Place{At: 99_999, Ino: 9}, walk.Place{At: 100_000, Ino: 8}},
		{"few in the second batch", 110_000, true, walk.Place{At: 100_000, Ino: 9}, walk.Place{At: 109_999, Ino: 8}},
		{"more in the second batch", 110_001, true, walk.Place{At: 109_999, Ino: 8}, walk.Place{At: 100_000, Ino: 9}},
		{"equal inodes", 10_001, true, walk.Place{At: 3, Ino: 9}, walk.Place{At: 4, Ino: 9}},
	} {
		n := &node{entries: c.entries, byInode: c.byInode}
		require.Equal(t, []int{-1, 1}, []int{n.compare(c.first, c.second), n.compare(c.second, c.first)}, c.name)
	}
}

// In a tree of equal sizes each entry is compared: that must not make anything.
func TestComparisonOfEqualEntriesMakesNothing(t *testing.T) {
	dir := &node{}
	for range 100 {
		dir = &node{parent: dir, name: "a directory", depth: dir.depth + 1}
	}
	top := &top{size: 1}
	top.offer(candidate{file{name: "a", kind: fsys.Regular, Amount: Amount{Size: 7}}, dir})
	require.Zero(t, testing.AllocsPerRun(100, func() { top.offer(candidate{file{name: "b", kind: fsys.Regular, Amount: Amount{Size: 7}}, dir.parent}) }))
}

// Paths may be longer than the system takes.
func TestADeepTree(t *testing.T) {
	root := treetest.MemoryDir(t)
	d, err := fsys.OpenRoot(root)
	require.NoError(t, err)
	const name, depth = "a name of twenty one", 1000
	for range depth {
		require.NoError(t, d.Mkdir(name))
		sub, err := d.OpenDir(name)
		require.NoError(t, err)
		p, err := sub.Create(true)
		require.NoError(t, err)
		require.NoError(t, p.Commit("file"))
		d.Close()
		d = sub
	}
	d.Close()
	var want []uint64 // sizes of the directories
	d, err = fsys.OpenRoot(root)
	require.NoError(t, err)
	for {
		info, err := d.Stat()
		require.NoError(t, err)
		want = append(want, uint64(max(info.Size, 0)))
		sub, err := d.OpenDir(name)
		d.Close()
		if err != nil {
			break
		}
		d = sub
	}
	require.Len(t, want, depth+1)
	for _, most := range []int{depth + 1, depth, depth / 2, 0} {
		got := take(t, Options{Paths: []string{root}, MaxDepth: most, Apparent: true})
		require.Empty(t, got.Failed)
		require.Len(t, got.Entries, min(most, depth)+1)
		total := uint64(0)
		for i := depth; i >= 0; i-- {
			total += want[i]
			if i > most {
				continue
			}
			e := got.Entries[len(got.Entries)-1-i]
			require.Equal(t, i, e.Depth)
			require.Equal(t, total, e.Size)
			require.Equal(t, root+strings.Repeat("/"+name, i), e.Path)
		}
	}
}

// If only the paths are listed, nothing of their trees stays in memory.
func TestMemoryDoesNotGrowWithTheTree(t *testing.T) {
	most := 30_000
	if treetest.Large() {
		most = 100_000
	}
	live := func(files int) int64 {
		root := treetest.MemoryDir(t)
		for i := range files {
			if i%100 == 0 {
				require.NoError(t, os.Mkdir(fmt.Sprint(root, "/", i/100), 0o700))
			}
			f, err := os.Create(fmt.Sprint(root, "/", i/100, "/", i))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		heap := func() int64 {
			runtime.GC()
			runtime.GC() // what the first has finalized
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		var at int64
		before := heap()
		s, err := Run(t.Context(), &Options{Paths: []string{root}, Apparent: true, Emit: func(Entry) { at = heap() }, Report: func(string, error) { t.Error("failed") }})
		require.NoError(t, err)
		require.NotZero(t, s.Size)
		return at - before
	}
	live(1000)
	small, large := live(5000), live(most)
	t.Logf("%d bytes for 5000 files, %d for %d", small, large, most)
	require.Less(t, large-small, int64(64<<10), "bytes that the further files use")
}

func TestSumsDoNotOverflow(t *testing.T) {
	plus := func(a, b uint64) uint64 { return Amount{Size: a}.plus(Amount{Size: b}).Size }
	require.Equal(t, uint64(math.MaxUint64), plus(math.MaxUint64-1, 2))
	require.Equal(t, uint64(math.MaxUint64), plus(math.MaxUint64-1, 1))
	require.Equal(t, uint64(math.MaxInt64)+1, plus(math.MaxInt64, 1))
	var s sum
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				s.add(Amount{math.MaxInt64, int64(i)})
			}
		})
	}
	all.Wait()
	require.Equal(t, Amount{math.MaxUint64, 7}, s.amount())
}
