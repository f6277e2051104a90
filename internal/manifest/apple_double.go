package manifest

import (
	"io"
	"strings"
)

// appleDouble is the magic number of AppleDouble files (RFC 1740).
const appleDouble = "\x00\x05\x16\x07"

// IsAppleDouble reports whether a file that Recognize takes for a manifest is an AppleDouble file. It
// has the metadata of another file that macOS cannot store on exFAT and other file systems:
// "._x.sha256" that of "x.sha256". Another file with a name that begins with "._" is a manifest. An
// error does not matter, because reading the manifest reports it.
func IsAppleDouble(name string, content io.ReaderAt) bool {
	if !strings.HasPrefix(name, "._") {
		return false
	}
	magic := make([]byte, len(appleDouble))
	_, err := io.ReadFull(io.NewSectionReader(content, 0, int64(len(magic))), magic)
	return err == nil && string(magic) == appleDouble
}
