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
	"github.com/seed65876f4f/sealift/internal/record"
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
	want, other := sha256.Sum256([]byte("want")), sha256.Sum256([]byte("other"))
	var lines []byte
	for i := range 10_000 { // what was read last stays in memory
		lines = fmt.Appendf(lines, "SHA256 (%d) = %x\n", i, want)
	}
	source := &failing{r: bytes.NewReader(lines)}
	index, err := manifest.BuildCheckIndex(source, int64(len(lines)), manifest.BSD, hash.SHA256)
	require.NoError(t, err)
	h := &history{Destination: &record.Destination{Hashes: []hash.Algorithm{hash.SHA256}}, index: []*manifest.Index{index}}
	for _, test := range []struct {
		file     string
		digest   []byte
		expected error
	}{{"1", want[:], nil}, {"1", other[:], errListed}, {"new", other[:], nil}} {
		require.Equal(t, test.expected, h.Accepts(test.file, hash.Digests{test.digest}, true), "%s", test.file)
	}
	require.NoError(t, h.Accepts("1", hash.Digests{other[:]}, false), "nothing changes")
	require.ErrorIs(t, h.Accepts("1", nil, true), record.ErrNoDigests)
	require.NoError(t, h.Accepts("new", nil, true))

	source.err = errors.New("boom")
	err = h.Accepts("9999", hash.Digests{other[:]}, true)
	require.ErrorIs(t, err, source.err)
	require.ErrorContains(t, err, "the history of the destination: ")
	require.ErrorIs(t, h.Accepts("9999", nil, true), record.ErrNoDigests)
}
