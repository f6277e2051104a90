// Package incomplete handles the signs of an unfinished copy in the root of a destination.
// These are the marker files that a copy with failures writes, and the journals of
// interrupted copies. Find reports both. A copy collects its failures in a [Missing], and
// [Job] writes and removes markers.
//
// A marker is a text file for people. It begins with a head that programs read, see
// [Head]; a blank line and any text follow.
package incomplete

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Prefix begins the name of every marker.
const Prefix = "SEALIFT-INCOMPLETE-"

const suffix = ".txt"

// maxBase is the longest part of a marker's name that comes from the source, in bytes. File
// systems allow names of 255 bytes; Prefix, suffix and a number need 30 of them.
const maxBase = 200

// MaxNumber is the largest number in a marker's name.
const MaxNumber = 9999

// Name returns the name of the marker with a number, from 1, for a copy of the
// directory source, which is an absolute path without symbolic links. The name holds
// the last element of the path, or "root" for a root directory. Characters that are
// invisible, not UTF-8, or forbidden on Windows become "_". A long element is cut
// between two characters.
func Name(source string, number int) string {
	base := filepath.Base(source)
	if base == string(filepath.Separator) {
		base = "root"
	}
	var safe strings.Builder
	for _, c := range base { // one U+FFFD for each byte that is not UTF-8
		s := string(c)
		if quote.Text(s) != s || c == utf8.RuneError || strings.ContainsRune(`<>:"/\|?*`, c) {
			s = "_"
		}
		if safe.Len()+len(s) > maxBase {
			break
		}
		safe.WriteString(s)
	}
	if number > 1 {
		fmt.Fprintf(&safe, "-%d", number)
	}
	return Prefix + safe.String() + suffix
}

// IsName reports whether a name has the form of a marker's name, in any case: a file system that
// ignores case may list names in another one.
func IsName(name string) bool {
	end := len(name) - len(suffix)
	return end > len(Prefix) && strings.EqualFold(name[:len(Prefix)], Prefix) && strings.EqualFold(name[end:], suffix)
}

// listedAs returns the one of the names, which root lists, that the file system finds as name, or "".
// It compares no inode numbers, because FUSE may show two for one file.
func listedAs(root *fsys.Dir, names []string, name string) string {
	if slices.Contains(names, name) {
		return name
	}
	i := slices.IndexFunc(names, func(listed string) bool { return strings.EqualFold(listed, name) })
	if i < 0 {
		return ""
	}
	if _, err := root.Lstat(name); err != nil { // the names differ
		return ""
	}
	return names[i]
}

// Head is the first part of a marker. A head that was read is hostile input: its fields
// have one line each, with any content.
type Head struct {
	Source  string // the absolute path of the source, as quote.Name writes it
	Filters string // "none", or the fingerprint of the filters of the copy
	Date    string // time when the copy ended: UTC, RFC 3339
	Missing int64  // number of paths that are missing or wrong at the destination
}

// NoFilters is Head.Filters of a copy without filters.
const NoFilters = "none"

const title = "Sealift: this copy is incomplete"

// String returns the head as a marker begins with it, including the blank line after it.
func (h Head) String() string {
	return fmt.Sprintf("%s\n\nSource: %s\nFilters: %s\nDate: %s\nMissing: %d\n\n", title, h.Source, h.Filters, h.Date, h.Missing)
}

// maxHead is the longest head that is read, in bytes. A path of 4096 bytes, in which each
// byte has an escape of four, needs a quarter of it.
const maxHead = 64 << 10

// ErrNoHead says that a file does not begin like a marker of Sealift.
var ErrNoHead = errors.New("it does not have the form that Sealift writes")

// ReadHead reads the head of a marker of the given size.
func ReadHead(f io.ReaderAt, size int64) (Head, error) {
	text := make([]byte, min(size, maxHead))
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Head{}, err
	}
	rest, ok := strings.CutPrefix(string(text[:n]), title+"\n\n")
	if !ok {
		return Head{}, ErrNoHead
	}
	var h Head
	for _, field := range []struct {
		key   string
		value *string
	}{{"Source: ", &h.Source}, {"Filters: ", &h.Filters}, {"Date: ", &h.Date}} {
		line, after, ended := strings.Cut(rest, "\n")
		value, ok := strings.CutPrefix(line, field.key)
		if !ok || !ended {
			return Head{}, ErrNoHead
		}
		*field.value, rest = value, after
	}
	line, after, _ := strings.Cut(rest, "\n")
	number, ok := strings.CutPrefix(line, "Missing: ")
	missing, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || missing < 0 || !strings.HasPrefix(after, "\n") {
		return Head{}, ErrNoHead
	}
	h.Missing = missing
	return h, nil
}

// Open reads the head of the marker name in dir. It follows no link, and opens only regular
// files.
func Open(dir *fsys.Dir, name string) (Head, fsys.Info, error) {
	f, info, err := dir.OpenRegular(name)
	if err != nil {
		return Head{}, info, err
	}
	defer f.Close()
	h, err := ReadHead(fsys.ReaderAt{File: f}, info.Size)
	return h, info, err
}
