package shard

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// readMissing returns the paths that only manifests of the source have.
func readMissing(t testing.TB, s *Store) (all []Missing) {
	r, err := s.OpenMissing()
	require.NoError(t, err)
	defer r.Close()
	m, err := r.Next()
	for ; err == nil; m, err = r.Next() {
		all = append(all, m)
	}
	require.ErrorIs(t, err, io.EOF)
	return all
}

// Every shard says of the directory of each entry whether it was absent.
func TestEachEntryComesWithItsDirectory(t *testing.T) {
	dir, _ := openTemp(t)
	o := planOptions(3)
	o.Targets = make([]Target, 2)
	p, err := NewPlanner(dir, o)
	require.NoError(t, err)
	defer p.Close()
	want := map[string]Absence{"": "--", "a": "aa", "a/b": "aa", "a-b": "a-", "c\n": "-a", "unknown": "--"}
	for path, flags := range want {
		for i := range 3 { // the last is large, and is placed before the others
			e := file(path+fmt.Sprintf("/%d", i), int64(i/2)*8e9).Entry
			if path == "" {
				e.Path = e.Path[1:]
			}
			require.NoError(t, p.Add(e, fsys.ID{}, 1))
		}
		if path != "unknown" {
			require.NoError(t, p.AddDirectory(Directory{Path: path, Absent: flags}))
		}
	}
	require.Error(t, p.AddDirectory(Directory{Path: "x", Absent: "a"}), "there are two destinations")
	_, err = p.Write(context.Background())
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	entries := 0
	for i := range s.Plan.Shards {
		r, err := s.OpenShard(i)
		require.NoError(t, err)
		e, err := r.Next()
		for ; err == nil; e, err = r.Next() {
			entries++
			path, _ := splitPath(e.Path)
			assert.Equal(t, EntryDir{path, want[path]}, r.Dir(), e.Path)
		}
		require.ErrorIs(t, err, io.EOF)
		r.Close()
	}
	assert.Equal(t, 18, entries)
	dirs, err := s.OpenDirs()
	require.NoError(t, err)
	defer dirs.Close()
	d, err := dirs.Next()
	for ; err == nil; d, err = dirs.Next() {
		assert.Equal(t, want[d.Path], d.Absent, d.Path)
	}
	require.ErrorIs(t, err, io.EOF)
	assert.True(t, want["c\n"].Of(1))
	assert.False(t, want["c\n"].Of(0))
	assert.Equal(t, Absence("a-"), NewAbsence([]bool{true, false}))
}

// A path that only manifests list is missing. The plan has it once, with the first manifest that
// lists it, unless the filters exclude it.
func TestMissingPathsAreListedOnce(t *testing.T) {
	dir, _ := openTemp(t)
	o := planOptions(1)
	o.Lists = append(o.Lists, List{Hash: o.Lists[0].Hash}, o.Lists[0])
	o.Missing = func(path string) bool { return path != "filtered" }
	p, err := NewPlanner(dir, o)
	require.NoError(t, err)
	defer p.Close()
	one, two := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	require.NoError(t, p.AddDirectory(Directory{}))
	require.NoError(t, p.Add(file("here", 1).Entry, fsys.ID{}, 1))
	for _, path := range []string{"here", "filtered", "b/x", "a"} {
		require.NoError(t, p.Expect(path, ListDigest{2, two}))
		require.NoError(t, p.Expect(path, ListDigest{2, one}))
		require.NoError(t, p.Expect(path, ListDigest{2, one}))
	}
	require.NoError(t, p.Expect("b/x", ListDigest{0, two}))
	for i := range byte(40) {
		require.NoError(t, p.Expect("here", ListDigest{1, append([]byte{i}, one[1:]...)}))
	}
	_, err = p.Write(context.Background())
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	assert.Equal(t, []Missing{{0, "b/x"}, {2, "a"}}, readMissing(t, s))
	expected := readShards(t, s)[0][0].Expected
	require.Len(t, expected, maxExpected+2)
	assert.Equal(t, []ListDigest{{2, one}, {2, two}}, expected[maxExpected:])
}

func TestMalformedMissingPathsAreRefused(t *testing.T) {
	for _, line := range []string{"missing 2 a", "missing 00 a", "missing 0 ", "missing 0 ../a", "absent 0 a", "missing 0", "missing -1 a"} {
		_, err := parseMissing([]byte(line), 2)
		assert.Error(t, err, line)
	}
	m, err := parseMissing([]byte(`missing 1 a\nb`), 2)
	require.NoError(t, err)
	assert.Equal(t, Missing{1, "a\nb"}, m)
}

// The sample is random: those of several plans of one source differ, and together they have entries
// from all of the source.
func TestTheSampleOfTheSourceIsRandom(t *testing.T) {
	samples, dirs := map[string]bool{}, map[string]bool{}
	for range 8 {
		dir, _ := openTemp(t)
		p, err := NewPlanner(dir, planOptions(2))
		require.NoError(t, err)
		defer p.Close()
		for i := range 1000 {
			require.NoError(t, p.Add(file(fmt.Sprintf("d%d/%04d", i/100, i), 1).Entry, fsys.ID{}, 1))
		}
		samples[fmt.Sprint(p.mu.sample)] = true
		for _, s := range p.mu.sample {
			dirs[string(s.Path[:2])] = true
		}
	}
	assert.Len(t, samples, 8)
	assert.Len(t, dirs, 10) // one run in 72,000 misses a directory
}

func TestThePlanNamesASampleOfTheSource(t *testing.T) {
	var nodes []node
	for i := range 1000 {
		n := file(fmt.Sprintf("d%d/%04d", i/100, i), 1)
		n.ino = uint64(i) + 1
		nodes = append(nodes, n)
	}
	for count, want := range map[int]int{0: 0, 5: 5, 1000: maxSample} {
		s := makePlan(t, planOptions(2), nodes[:count])
		require.Len(t, s.Plan.Sample, want)
		if count == 1000 { // not only the first ones
			assert.Greater(t, s.Plan.Sample[maxSample-1].Path, Text("d0/0020"))
		}
		for _, e := range s.Plan.Sample {
			var ino uint64
			_, err := fmt.Sscanf(string(e.Path[3:]), "%d", &ino)
			require.NoError(t, err)
			assert.Equal(t, ino+1, e.Ino, e.Path)
		}
	}
}

func TestLateFilesAreInNoShard(t *testing.T) {
	dir, _ := openTemp(t)
	p, err := NewPlanner(dir, planOptions(1))
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.AddDirectory(Directory{}))
	p.AddLate("sealift.md5")
	p.AddLate("MD5SUMS")
	_, err = p.Write(context.Background())
	require.NoError(t, err)
	s, err := Open(dir)
	require.NoError(t, err)
	assert.Equal(t, []Text{"MD5SUMS", "sealift.md5"}, s.Plan.Late)
	assert.Zero(t, s.Plan.Totals.Entries)
}

// Directories whose names may be one to a file system are found: their entries may be in
// different shards.
func TestDirectoriesThatMayFoldTogetherAreReported(t *testing.T) {
	dir, _ := openTemp(t)
	o := planOptions(2)
	var found []string
	o.Collides = func(dir, other string) { found = append(found, dir+" = "+other) }
	p, err := NewPlanner(dir, o)
	require.NoError(t, err)
	defer p.Close()
	for _, path := range []string{"", "A", "a", "a/b", "A/B", "c", "d"} {
		require.NoError(t, p.AddDirectory(Directory{Path: path}))
	}
	for _, path := range []string{"C", "x", "X", "a/b/e", "D1"} {
		require.NoError(t, p.Add(file(path, 1).Entry, fsys.ID{}, 1))
	}
	_, err = p.Write(context.Background())
	require.NoError(t, err)
	assert.Equal(t, []string{"a = A", "c = C"}, found)
}
