package mhl

import (
	"crypto/sha512"
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

func sumOf(a hash.Algorithm, content string) []byte {
	h := a.New()
	h.Write([]byte(content))
	return h.Sum(nil)
}

// The vectors are those of the tree of the examples of ascmhl: Clips has two clips, and
// Sidecar.txt is beside it.
func TestDirectoryHashes(t *testing.T) {
	d := newDirHasher([]hash.Algorithm{hash.XXH64}, nil)
	file := func(name, digest string) {
		sum, ok := hash.XXH64.AppendDigest(nil, []byte(digest))
		require.True(t, ok)
		require.NoError(t, d.file(name, [][]byte{sum}))
	}
	d.enter()
	d.enter()
	file("A002C006_141024_R2EC.mov", "0ea03b369a463d9d")
	file("A002C007_141024_R2EC.mov", "7680e5f98f4a80fd")
	clips, err := d.leave("Clips")
	require.NoError(t, err)
	file("Sidecar.txt", "3ab5a4166b9bde44")
	root, err := d.leave("")
	require.NoError(t, err)
	require.Equal(t, "4c226b42e27d7af3", hash.XXH64.Text(clips.content[0]))
	require.Equal(t, "906faa843d591a9f", hash.XXH64.Text(clips.structure[0]))
	require.Equal(t, "8d02114c32e28cbe", hash.XXH64.Text(root.content[0]))
	require.Equal(t, "f557f8ca8e5a88ef", hash.XXH64.Text(root.structure[0]))
	require.NoError(t, d.close())
}

func TestHashOfAnEmptyDirectory(t *testing.T) {
	d := newDirHasher(Algorithms(), nil)
	d.enter()
	sums, err := d.leave("")
	require.NoError(t, err)
	for i, a := range Algorithms() {
		require.Equal(t, sumOf(a, ""), sums.content[i])
		require.Equal(t, sumOf(a, ""), sums.structure[i])
	}
}

// countedSpill counts the spills that were made and those that are still open.
type countedSpill struct{ made, open int }

func (c *countedSpill) new() (extsort.Spill, error) {
	s, err := extsort.TempFile()
	c.made++
	c.open++
	return &countedFile{s, c}, err
}

type countedFile struct {
	extsort.Spill
	counter *countedSpill
}

func (f *countedFile) Close() error {
	f.counter.open--
	return f.Spill.Close()
}

// Digests that do not fit into memory are sorted in a temporary file, also those of
// directories within directories, and the hashes are the same.
func TestDirectoryHashesOfManyFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	hashes := []hash.Algorithm{hash.C4, hash.XXH64}
	run := func(limit int) (all []*dirDigests, spills *countedSpill) {
		spills = &countedSpill{}
		d := newDirHasher(hashes, spills.new)
		d.pool.limit = limit
		add := func(from, to int) {
			for i := from; i < to; i++ {
				sum := sha512.Sum512(binary.LittleEndian.AppendUint32(nil, uint32(i)))
				require.NoError(t, d.file(string(rune('a'+i%26)), [][]byte{sum[:], sum[:8]}))
			}
		}
		d.enter()
		add(0, 5000)
		for depth := range 3 {
			d.enter()
			add(depth*1000, depth*1000+3000)
		}
		for range 3 {
			sums, err := d.leave("sub")
			require.NoError(t, err)
			all = append(all, sums)
			add(0, 100)
		}
		sums, err := d.leave("")
		require.NoError(t, err)
		require.LessOrEqual(t, d.pool.used, 0)
		require.Empty(t, d.pool.lists)
		require.NoError(t, d.close())
		return append(all, sums), spills
	}
	want, spills := run(1 << 30)
	require.Zero(t, spills.made)
	got, spills := run(50_000)
	require.Equal(t, want, got)
	require.Equal(t, &countedSpill{made: 1}, spills)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The order in which the digests of a directory come does not matter.
func TestDigestListSorts(t *testing.T) {
	var digests [][]byte
	for i := range 1000 {
		sum := sha512.Sum512([]byte{byte(i), byte(i >> 8)})
		digests = append(digests, sum[:20])
	}
	spills := &countedSpill{}
	p := &pool{limit: 777, newSpill: spills.new}
	l := p.newList(20)
	for _, d := range digests {
		require.NoError(t, l.add(d))
	}
	h := hash.SHA1.New()
	require.NoError(t, l.close(h))
	slices.SortFunc(digests, func(a, b []byte) int { return slices.Compare(a, b) })
	require.Equal(t, sumOf(hash.SHA1, string(slices.Concat(digests...))), h.Sum(nil))
	require.NoError(t, p.close())
	require.Zero(t, spills.open)
}
