// Package bag reads and writes the small files of a BagIt bag (RFC 8493): bagit.txt,
// bag-info.txt and fetch.txt. Package manifest has the format of the manifests.
//
// A bag is hostile input. Every reader here uses bounded memory, and an error names the
// line that is wrong.
package bag

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// The names in the root of a bag.
const (
	DeclarationName = "bagit.txt"
	InfoName        = "bag-info.txt"
	FetchName       = "fetch.txt"
	PayloadName     = "data"
)

// Declaration is the content of bagit.txt in the bags that Sealift writes.
const Declaration = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"

// Algorithms are the hashes of the manifests that Sealift can write into a bag. RFC 8493
// names them; the preferred ones are first.
var Algorithms = []hash.Algorithm{hash.SHA256, hash.SHA512, hash.SHA1, hash.MD5}

// ManifestName returns the name of the payload manifest of a hash.
func ManifestName(a hash.Algorithm) string { return "manifest-" + string(a) + ".txt" }

// TagManifestName returns the name of the tag manifest of a hash.
func TagManifestName(a hash.Algorithm) string { return "tag" + ManifestName(a) }

// IsPayloadManifest reports whether a name in the root is that of a payload manifest. The
// algorithm may be one that Sealift does not know.
func IsPayloadManifest(name string) bool {
	name = strings.ToLower(name)
	return len(name) > len("manifest-.txt") && strings.HasPrefix(name, "manifest-") && strings.HasSuffix(name, ".txt")
}

// IsTagManifest reports whether a name in the root is that of a tag manifest.
func IsTagManifest(name string) bool {
	const tag = "tag"
	return len(name) > len(tag) && strings.EqualFold(name[:len(tag)], tag) && IsPayloadManifest(name[len(tag):])
}

// InPayload reports whether a path in a bag is that of a file in the payload.
func InPayload(path string) bool { return strings.HasPrefix(path, PayloadName+"/") }

const (
	maxDeclaration = 4 << 10  // bytes; two lines need 70
	maxLine        = 64 << 10 // bytes of the longest line of bag-info.txt and fetch.txt
	maxInfo        = 16 << 20 // bytes of bag-info.txt; longer ones are not read
)

// Version is the version of BagIt that a bag declares.
type Version struct{ Major, Minor int }

// EachManifestIsComplete reports whether each payload manifest of the bag has to list each
// file of the payload. Up to version 0.97, one manifest that lists a file is enough.
func (v Version) EachManifestIsComplete() bool { return v.Major >= 1 }

var byteOrderMark = []byte("\xef\xbb\xbf")

// ReadDeclaration reads bagit.txt. The error says why the bag is not one of version 0.97 to
// 1.0 with tag files in UTF-8.
func ReadDeclaration(r io.Reader) (v Version, err error) {
	content, err := io.ReadAll(io.LimitReader(r, maxDeclaration+1))
	switch {
	case err != nil:
		return v, err
	case len(content) > maxDeclaration:
		return v, fmt.Errorf("it is longer than %d bytes", maxDeclaration)
	case bytes.HasPrefix(content, byteOrderMark):
		return v, errors.New("it begins with a byte order mark, which RFC 8493 forbids")
	case len(content) > 1 && (content[0] == 0 || content[1] == 0 || content[0] >= 0xfe):
		return v, errors.New("it is in UTF-16 or UTF-32, and has to be in UTF-8")
	}
	lines := strings.Split(strings.TrimRight(unifyLineEnds(string(content)), "\n"), "\n")
	if len(lines) != 2 {
		return v, fmt.Errorf("there have to be two lines, BagIt-Version and Tag-File-Character-Encoding, but it has %d", len(lines))
	}
	number, ok := valueOf(lines[0], "BagIt-Version")
	if !ok {
		return v, errors.New("line 1 is not \"BagIt-Version: 1.0\" or the like")
	}
	switch number {
	case "0.97":
		v = Version{0, 97}
	case "1.0":
		v = Version{1, 0}
	default:
		return v, fmt.Errorf("BagIt %.40q is not known; versions 0.97 and 1.0 are", number)
	}
	encoding, ok := valueOf(lines[1], "Tag-File-Character-Encoding")
	if !ok {
		return v, errors.New("line 2 is not \"Tag-File-Character-Encoding: UTF-8\" or the like")
	}
	if !strings.EqualFold(encoding, "UTF-8") && !strings.EqualFold(encoding, "US-ASCII") && !strings.EqualFold(encoding, "ASCII") {
		return v, fmt.Errorf("the tag files are in %.40q; only UTF-8 is supported", encoding)
	}
	return v, nil
}

// valueOf returns the value of a line with a label.
func valueOf(line, label string) (value string, ok bool) {
	name, value, ok := strings.Cut(line, ":")
	return strings.Trim(value, " \t"), ok && strings.TrimRight(name, " \t") == label
}

func unifyLineEnds(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// eachLine calls yield for each line of r, without its end, which is a line feed, a
// carriage return or both.
func eachLine(r io.Reader, yield func(number int, line string) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 4<<10), maxLine)
	in.Split(splitLine)
	number := 0
	for in.Scan() {
		number++
		line := in.Bytes()
		if number == 1 {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if !utf8.Valid(line) {
			return fmt.Errorf("line %d is not UTF-8", number)
		}
		if bytes.IndexByte(line, 0) >= 0 {
			return fmt.Errorf("line %d has a NUL", number)
		}
		if err := yield(number, string(line)); err != nil {
			return err
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", number+1, maxLine)
	}
	return in.Err()
}

// splitLine is a bufio.SplitFunc.
func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && atEOF && len(data) > 0:
		return len(data), data, nil
	case i < 0:
		return 0, nil, nil
	case data[i] == '\n' || i+1 < len(data) && data[i+1] != '\n':
		return i + 1, data[:i], nil
	case i+1 < len(data):
		return i + 2, data[:i], nil
	case atEOF:
		return len(data), data[:i], nil
	}
	return 0, nil, nil // the next byte says whether the line ends with both
}
