package mhl

import (
	"bytes"
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
	const files = 20_000 // of a directory; several times as many as fit into memory
	spills := &countedSpill{}
	d := newDirHasher([]hash.Algorithm{hash.C4, hash.XXH64}, spills.new)
	names := func(i int) string { return string(rune('a' + i%26)) }
	digests := func(i int) [][]byte {
		sum := sha512.Sum512(binary.LittleEndian.AppendUint32(nil, uint32(i)))
		return [][]byte{sum[:], sum[:8]}
	}
	d.enter()
	for i := range files {
		require.NoError(t, d.file(names(i), digests(i)))
	}
	d.enter()
	for i := range files {
		require.NoError(t, d.file(names(i), digests(files+i)))
	}
	below, err := d.leave("sub")
	require.NoError(t, err)
	root, err := d.leave("")
	require.NoError(t, err)
	require.NoError(t, d.close())
	require.Equal(t, &countedSpill{made: 2}, spills)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)

	for slot, a := range []hash.Algorithm{hash.C4, hash.XXH64} {
		// sorted returns the hash of the sorted digests.
		sorted := func(all [][]byte) []byte {
			slices.SortFunc(all, bytes.Compare)
			return sumOf(a, string(slices.Concat(all...)))
		}
		of := func(from int, more *dirDigests) (content, structure []byte) {
			var contents, structures [][]byte
			for i := range files {
				digest := digests(from + i)[slot]
				contents = append(contents, digest)
				structures = append(structures, sumOf(a, names(i)+string(digest)))
			}
			if more != nil {
				contents = append(contents, more.content[slot])
				structures = append(structures, sumOf(a, "sub"+string(more.structure[slot])))
			}
			return sorted(contents), sorted(structures)
		}
		content, structure := of(files, nil)
		require.Equal(t, content, below.content[slot])
		require.Equal(t, structure, below.structure[slot])
		content, structure = of(0, below)
		require.Equal(t, content, root.content[slot])
		require.Equal(t, structure, root.structure[slot])
	}
}

// An error leaves no temporary file.
func TestDirectoryHashesAfterAnError(t *testing.T) {
	spills := &countedSpill{}
	d := newDirHasher([]hash.Algorithm{hash.XXH64}, spills.new)
	d.enter()
	for i := range 100_000 {
		require.NoError(t, d.file("x", [][]byte{binary.LittleEndian.AppendUint64(nil, uint64(i))}))
	}
	require.Equal(t, &countedSpill{made: 1, open: 1}, spills)
	require.NoError(t, d.close())
	require.Zero(t, spills.open)
}
