package manifest

import (
	"errors"
	"io"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// Replaceable refuses to have a file of size bytes replaced by a manifest of some
// algorithms unless the file is empty, or certainly a manifest, of these algorithms or
// of one whose lines show that: a name that was mistyped must not cost a file.
func Replaceable(r io.ReaderAt, size int64, algorithms ...hash.Algorithm) error {
	if size == 0 {
		return nil
	}
	for _, a := range append([]hash.Algorithm{""}, algorithms...) {
		_, err := NewCheckReader(io.NewSectionReader(r, 0, size), FormatSums, a).Next()
		if !errors.Is(err, io.EOF) {
			return err
		}
	}
	return errors.New("it is there and no manifest")
}
