package verify

import (
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// appleDouble is the magic number of AppleDouble files (RFC 1740).
const appleDouble = "\x00\x05\x16\x07"

// isAppleDouble reports whether a file has the metadata of another file that macOS cannot
// store on exFAT and other file systems: "._x.sha256" that of "x.sha256". An AppleDouble file is no
// manifest. An error does not matter, because reading the manifest reports it.
func isAppleDouble(name string, f *fsys.File) bool {
	if !strings.HasPrefix(name, "._") {
		return false
	}
	magic := make([]byte, len(appleDouble))
	_, err := io.ReadFull(io.NewSectionReader(fsys.ReaderAt{File: f}, 0, int64(len(magic))), magic)
	return err == nil && string(magic) == appleDouble
}
