package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// openTemp opens a new directory that belongs to the test alone.
func openTemp(t testing.TB) (*fsys.Dir, string) {
	path := filepath.Join(t.TempDir(), "plan")
	require.NoError(t, os.Mkdir(path, 0o700))
	dir, err := fsys.OpenRoot(path)
	require.NoError(t, err)
	t.Cleanup(dir.Close)
	return dir, path
}

func planOptions(shards int) PlanOptions {
	return PlanOptions{
		Copy:    Options{Hashes: []hash.Algorithm{hash.MD5}, Policy: "default"},
		Source:  Root{Path: "/src", Ino: 2},
		Targets: []Root{{Path: "/dst", Ino: 3}},
		Lists:   []List{{Name: "MD5SUMS", Hash: hash.MD5}},
		Shards:  shards,
		Links:   true,
	}
}

// node is an entry of a test, with its inode number and number of links.
type node struct {
	Entry
	ino, links uint64
}

func file(path string, size int64) node {
	return node{Entry: Entry{Path: path, Kind: fsys.Regular, Size: size}}
}

func linked(path string, size int64, ino uint64) node {
	n := file(path, size)
	n.ino, n.links = ino, 2
	return n
}

// makePlan plans the nodes, in a random order, and opens the plan.
func makePlan(t testing.TB, o PlanOptions, nodes []node) *Store {
	dir, _ := openTemp(t)
	p, err := NewPlanner(dir, o)
	require.NoError(t, err)
	defer p.Close()
	shuffled := slices.Clone(nodes)
	rand.Shuffle(len(nodes), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	require.NoError(t, p.AddDirectory(Directory{}))
	for _, n := range shuffled {
		require.NoError(t, p.Add(n.Entry, fsys.ID{Dev: 1, Ino: n.ino}, max(n.links, 1)))
	}
	written, err := p.Write(context.Background())
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	require.Equal(t, written.ID, s.Plan.ID)
	return s
}

// readShards returns the entries of all shards.
func readShards(t testing.TB, s *Store) [][]Entry {
	shards := make([][]Entry, len(s.Plan.Shards))
	for i := range shards {
		r, err := s.OpenList(i)
		require.NoError(t, err)
		for {
			e, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if e.Kind != fsys.Directory && !e.Missing {
				shards[i] = append(shards[i], *e)
			}
		}
		r.Close()
	}
	return shards
}

// homes returns the shard of each path, and fails if a path is in two shards.
func homes(t testing.TB, shards [][]Entry) map[string]int {
	m := map[string]int{}
	for i, shard := range shards {
		for _, e := range shard {
			_, twice := m[e.Path]
			require.False(t, twice, "%q is in two shards", e.Path)
			m[e.Path] = i
		}
	}
	return m
}

func TestEveryEntryIsInOneShard(t *testing.T) {
	nodes := []node{
		file("a", 5), file("b\nc\\d\re", 7), file("dir/\xff\xfe", 9), file("dir/sub/x", 0),
		{Entry: Entry{Path: "link", Kind: fsys.Symlink}},
		{Entry: Entry{Path: "fifo", Kind: fsys.Fifo}},
	}
	for _, shards := range []int{1, 2, 4, 50} {
		s := makePlan(t, planOptions(shards), nodes)
		require.Len(t, s.Plan.Shards, shards)
		var got []Entry
		for _, shard := range readShards(t, s) {
			got = append(got, shard...)
		}
		var want []Entry
		for _, n := range nodes {
			want = append(want, Entry{Path: n.Path, Kind: n.Kind})
		}
		assert.ElementsMatch(t, want, got)
		assert.Equal(t, Totals{Entries: 6, Directories: 1, Bytes: 21}, s.Plan.Totals)
	}
}

func TestExpectedDigestsAndPreviousLinesFollowTheirEntry(t *testing.T) {
	dir, _ := openTemp(t)
	p, err := NewPlanner(dir, planOptions(1))
	require.NoError(t, err)
	defer p.Close()
	one, two := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	for _, path := range []string{"a/x", "gone"} { // lines may come before entries
		require.NoError(t, p.Expect(path, ListDigest{0, two}))
		require.NoError(t, p.Expect(path, ListDigest{0, one}))
		require.NoError(t, p.Previous(path, LineDigest{0, 0, two}))
	}
	require.NoError(t, p.Previous("elsewhere", LineDigest{0, 0, one}))
	require.NoError(t, p.AddDirectory(Directory{}))
	for _, path := range []string{"a/x", "a/y"} {
		require.NoError(t, p.Add(file(path, 1).Entry, fsys.ID{}, 1))
	}
	_, err = p.Write(context.Background())
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	entries := readShards(t, s)[0]
	require.Len(t, entries, 2)
	assert.Equal(t, []ListDigest{{0, one}, {0, two}}, entries[0].Expected)
	assert.Equal(t, []LineDigest{{0, 0, two}}, entries[0].Previous)
	assert.Empty(t, entries[1].Expected)
	assert.Empty(t, entries[1].Previous)
	assert.EqualValues(t, 1, s.Plan.Totals.Missing)
	all, err := readAll(s)
	require.NoError(t, err)
	assert.Equal(t, Entry{Path: "gone", Missing: true, Expected: []ListDigest{{List: 0}}}, all[len(all)-1])
}

func TestNamesOfAFileShareAShard(t *testing.T) {
	var nodes []node
	for i := range 40 {
		nodes = append(nodes, linked(fmt.Sprintf("first/%02d", i), 1e9, uint64(i)+10), linked(fmt.Sprintf("second/%02d", i), 1e9, uint64(i)+10))
	}
	nodes = append(nodes, linked("alone", 1e9, 7)) // its other name is not in the plan
	s := makePlan(t, planOptions(4), nodes)
	shards := readShards(t, s)
	home := homes(t, shards)
	for i := range 40 {
		a, b := fmt.Sprintf("first/%02d", i), fmt.Sprintf("second/%02d", i)
		assert.Equal(t, home[a], home[b])
	}
	assert.EqualValues(t, 40, s.Plan.Totals.LinkGroups)
	assert.EqualValues(t, 41e9, s.Plan.Totals.Bytes)
	var bytes int64
	for _, f := range s.Plan.Shards {
		bytes += f.Bytes
	}
	assert.EqualValues(t, 41e9, bytes)
}

func TestWithoutLinksEachNameIsAFile(t *testing.T) {
	o := planOptions(2)
	o.Links = false
	s := makePlan(t, o, []node{linked("a", 5e9, 1), linked("b", 5e9, 1)})
	home := homes(t, readShards(t, s))
	assert.NotEqual(t, home["a"], home["b"])
	assert.EqualValues(t, 10e9, s.Plan.Totals.Bytes)
}

func TestNamesThatMayFoldShareAShard(t *testing.T) {
	var nodes []node
	for i := range 30 {
		nodes = append(nodes, file(fmt.Sprintf("File%02d.mov", i), 5e9), file(fmt.Sprintf("fILE%02d.MOV", i), 5e9))
	}
	home := homes(t, readShards(t, makePlan(t, planOptions(7), nodes)))
	used := map[int]bool{}
	for i := range 30 {
		a := home[fmt.Sprintf("File%02d.mov", i)]
		assert.Equal(t, a, home[fmt.Sprintf("fILE%02d.MOV", i)])
		used[a] = true
	}
	assert.Len(t, used, 7)
}

// Hard link groups and names that fold together overlap. All of them are in one shard.
func TestOverlappingGroupsShareAShard(t *testing.T) {
	for _, size := range []int64{1, 5e9} {
		var nodes []node
		for i := range 20 { // aNN-X ~ aNN-x = bNN-y ~ bNN-Y = cNN-z
			n := uint64(100 * (i + 1))
			nodes = append(nodes,
				file(fmt.Sprintf("a/%02d-X", i), size), linked(fmt.Sprintf("a/%02d-x", i), size, n),
				linked(fmt.Sprintf("b/%02d-y", i), size, n), linked(fmt.Sprintf("b/%02d-Y", i), size, n+1),
				linked(fmt.Sprintf("c/%02d-z", i), size, n+1))
		}
		home := homes(t, readShards(t, makePlan(t, planOptions(6), nodes)))
		used := map[int]bool{}
		for i := range 20 {
			shard := home[fmt.Sprintf("a/%02d-X", i)]
			used[shard] = true
			for _, name := range []string{"a/%02d-x", "b/%02d-y", "b/%02d-Y", "c/%02d-z"} {
				assert.Equal(t, shard, home[fmt.Sprintf(name, i)], name, i)
			}
		}
		assert.Len(t, used, 6)
	}
}

// Thousands of names of one directory may fold.
func TestManyNamesThatFoldShareAShard(t *testing.T) {
	const letters = 13 // 8,192 names
	var nodes []node
	for bits := range 1 << letters {
		name := []byte(strings.Repeat("x", letters))
		for i := range name {
			if bits>>i&1 == 1 {
				name[i] = 'X'
			}
		}
		nodes = append(nodes, file("dir/"+string(name), 1))
	}
	for i := range 20_000 {
		nodes = append(nodes, file(fmt.Sprintf("other/%d", i), 1))
	}
	for _, extra := range [][]node{nil, {linked("dir/"+strings.Repeat("x", letters)+".", 1, 9), linked("far", 1, 9)}} {
		home := homes(t, readShards(t, makePlan(t, planOptions(3), append(nodes, extra...))))
		shard := home[nodes[0].Path]
		for _, n := range nodes[:1<<letters] {
			require.Equal(t, shard, home[n.Path])
		}
		for _, n := range extra {
			require.Equal(t, shard, home[n.Path])
		}
	}
}

func TestSmallDirectoriesStayTogether(t *testing.T) {
	var nodes []node
	for dir := range 300 {
		for i := range 10 {
			nodes = append(nodes, file(fmt.Sprintf("d%03d/%d", dir, i), 1000))
		}
	}
	home := homes(t, readShards(t, makePlan(t, planOptions(7), nodes)))
	last := 0
	for dir := range 300 {
		shard := home[fmt.Sprintf("d%03d/0", dir)]
		for i := range 10 {
			require.Equal(t, shard, home[fmt.Sprintf("d%03d/%d", dir, i)])
		}
		assert.GreaterOrEqual(t, shard, last, "neighbouring directories are in one shard")
		last = shard
	}
}

func TestALargeDirectoryIsSplit(t *testing.T) {
	var nodes []node
	for i := range 30_000 {
		nodes = append(nodes, file(fmt.Sprintf("flat/%05d", i), 1000))
	}
	s := makePlan(t, planOptions(8), nodes)
	assertBalanced(t, s, nodes)
	for i, shard := range readShards(t, s) {
		for j := 1; j < len(shard); j++ {
			require.Less(t, shard[j-1].Path, shard[j].Path, "shard %d", i)
		}
	}
}

// assertBalanced checks that no shard costs more than the mean plus the largest file. If all files are
// small, the limit is 1.1 times the mean.
func assertBalanced(t testing.TB, s *Store, nodes []node) {
	var total, longest int64
	for _, f := range s.Plan.Shards {
		total += f.Cost
		longest = max(longest, f.Cost)
	}
	var largest int64
	for _, n := range nodes {
		largest = max(largest, costOf(n.Kind, n.Size))
	}
	mean := total / int64(len(s.Plan.Shards))
	bound := mean + max(mean/10, largest)
	assert.LessOrEqual(t, longest, bound, "mean %d, largest %d", mean, largest)
}

func TestShardsAreBalanced(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, size := range map[string]func(i int) int64{
		"equal":      func(int) int64 { return 1 << 20 },
		"empty":      func(int) int64 { return 0 },
		"log":        func(int) int64 { return int64(1) << random.IntN(29) },
		"one giant":  func(i int) int64 { return map[bool]int64{true: 4 << 40, false: 1 << 20}[i == 77] },
		"few large":  func(i int) int64 { return map[bool]int64{true: 5 << 30, false: 10_000}[i%500 == 0] },
		"descending": func(i int) int64 { return int64(8_000-i) << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []node
			for i := range 8_000 {
				n := file(fmt.Sprintf("%d/%d/%d", i%7, i%113, i), size(i))
				if i%9 == 0 {
					n.ino, n.links = uint64(i/2), 2
				}
				nodes = append(nodes, n)
			}
			s := makePlan(t, planOptions(16), nodes)
			assertBalanced(t, s, nodes)
			assert.Len(t, homes(t, readShards(t, s)), 8_000)
		})
	}
}

// A unit is in the shard that contains its middle.
func TestALargeFileIsNotWithAllThatPrecedesIt(t *testing.T) {
	home := homes(t, readShards(t, makePlan(t, planOptions(2), []node{file("a", 1e9), file("b", 5e9)})))
	assert.NotEqual(t, home["a"], home["b"])
}

func TestShardCount(t *testing.T) {
	assert.Equal(t, 7, shardCount(1, 1, 7, 5))
	assert.Equal(t, 3, shardCount(1, 11, 0, 5))
	assert.Equal(t, 1, shardCount(0, 0, 0, 0))
	assert.Equal(t, 1, shardCount(0, 0, 0, 5))
	assert.Equal(t, 2, shardCount(shardCost+1, 0, 0, 0))
	assert.Equal(t, 1000, shardCount(shardCost*5000, 0, 0, 0))
}

func TestSpilledPlanEqualsOneInMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var nodes []node
	for i := range 5000 {
		n := file(fmt.Sprintf("%d/%x/F%d", i%5, random.Uint32(), i), int64(random.Uint32()))
		if i%3 > 0 {
			n.ino, n.links = uint64(i/3), 2
		}
		nodes = append(nodes, n)
	}
	o := planOptions(9)
	want := makePlan(t, o, nodes)
	o.memory = 2 << 10 // so small that the sorter cannot merge all sorted runs at the same time
	got := makePlan(t, o, nodes)
	assert.Equal(t, readShards(t, want), readShards(t, got))
	assert.Equal(t, want.Plan.Totals, got.Plan.Totals)
}
