package bag

import (
	"fmt"
	"io"
	"strings"
)

// ReadFetch reads fetch.txt and calls yield for the path of each entry, unchanged. It
// fetches nothing. The error is that of reading or of yield, or names a line that is not a
// URL, a length and a path.
func ReadFetch(r io.Reader, yield func(path string) error) error {
	return eachLine(r, func(number int, line string) error {
		if strings.Trim(line, " \t") == "" {
			return nil
		}
		_, rest := cutBlanks(line)
		length, path := cutBlanks(rest)
		if _, err := parseCount(length); err != nil && length != "-" || path == "" {
			return fmt.Errorf("line %d is not a URL, a length and a path", number)
		}
		return yield(path)
	})
}

// cutBlanks cuts s at its first blanks.
func cutBlanks(s string) (before, after string) {
	end := strings.IndexAny(s, " \t")
	if end < 0 {
		return s, ""
	}
	return s[:end], strings.TrimLeft(s[end:], " \t")
}
