package filter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxRecord limits one line of a rule file or path list, in bytes. The limit is far above
// any usable path (Linux: 4096 in one call). It is small enough that reading a disk image by
// mistake ends at once.
const maxRecord = 1 << 20

// A recordScanner reads records. Each ends in a separator byte, which is optional after the
// last. Unlike [bufio.ScanLines], it does not remove a CR.
type recordScanner struct {
	*bufio.Scanner
}

func newRecordScanner(r io.Reader, sep byte) recordScanner {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), maxRecord+1) // the separator needs space, too
	sc.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, sep); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	return recordScanner{sc}
}

// Err returns the error that ended the scan, nil at the end of the input.
func (s recordScanner) Err() error {
	err := s.Scanner.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("longer than %d bytes", maxRecord)
	}
	return err
}
