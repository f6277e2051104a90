package cli

import (
	"errors"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/extsort"
)

const listingMemory = 16 << 20 // bytes of lines that a listing keeps in memory

// listing collects the lines of --verbose in any order, and returns them sorted. Its memory does
// not depend on their number. Use it from one goroutine.
type listing struct {
	memory int // bytes of lines before they go to a temporary file

	sorter *extsort.Sorter // lines by their keys; nil before the first line
}

// add adds a line, which is sorted by its key.
func (l *listing) add(key, line string) {
	if l.sorter == nil {
		l.sorter = extsort.New(extsort.TempFile, l.memory)
	}
	_ = l.sorter.Add([]byte(key), []byte(line)) // close returns the error
}

// close calls yield for each line in the order of the keys, and removes the temporary file.
func (l *listing) close(yield func(line string)) error {
	if l.sorter == nil {
		return nil
	}
	err := l.sorter.Each(func(_, line []byte) error {
		yield(string(line))
		return nil
	})
	if err = errors.Join(err, l.sorter.Close()); err != nil {
		return fmt.Errorf("the listing is incomplete: %w", fileError(err))
	}
	return nil
}
