package catalog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// failing reads from r until err is set.
type failing struct {
	r   io.ReaderAt
	err error
}

func (f *failing) ReadAt(b []byte, at int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.r.ReadAt(b, at)
}

// If the lines of a history cannot be read, it is not known whether new content contradicts
// them.
func TestContradictsReportsWhatCannotBeRead(t *testing.T) {
	have, other := sha256.Sum256([]byte("have")), sha256.Sum256([]byte("other"))
	var lines []byte
	for i := range 10_000 { // what was read last stays in memory
		lines = fmt.Appendf(lines, "SHA256 (%d) = %x\n", i, have)
	}
	source := &failing{r: bytes.NewReader(lines)}
	index, err := manifest.BuildCheckIndex(source, int64(len(lines)), manifest.BSD, hash.SHA256)
	require.NoError(t, err)
	c := &Catalog{history: &history{index: []*manifest.Index{index}}, opts: Options{Hashes: []hash.Algorithm{hash.SHA256}}}
	for _, test := range []struct {
		file     string
		digest   []byte
		expected bool
	}{{"1", have[:], false}, {"1", other[:], true}, {"new", other[:], false}} {
		contradicts, err := c.Contradicts(test.file, hash.Digests{test.digest})
		require.NoError(t, err)
		require.Equal(t, test.expected, contradicts, "%s", test.file)
	}
	require.True(t, c.InHistory("1"))
	require.False(t, c.InHistory("new"))

	source.err = errors.New("boom")
	_, err = c.Contradicts("9999", hash.Digests{other[:]})
	require.ErrorIs(t, err, source.err)
	require.ErrorContains(t, err, "the history of the destination: ")
	require.True(t, c.InHistory("9999"))
}
