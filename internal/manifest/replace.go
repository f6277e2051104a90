package manifest

import (
	"errors"
	"io"
)

// Replaceable refuses to have a file of size bytes replaced by a manifest which is
// not certainly one, or empty: a name that was mistyped must not cost a file.
func Replaceable(r io.ReaderAt, size int64) error {
	if size == 0 {
		return nil
	}
	_, err := NewCheckReader(io.NewSectionReader(r, 0, size), FormatSums).Next()
	if errors.Is(err, io.EOF) {
		return errors.New("it is there and no manifest")
	}
	return err
}
