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
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// The names in the root of a bag.
const (
	DeclarationName = "bagit.txt"
	InfoName        = "bag-info.txt"
	FetchName       = "fetch.txt"
	oldInfoName     = "package-info.txt" // name in place of bag-info.txt up to version 0.95
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

// Declared is the content of bagit.txt: the version of BagIt and the encoding of the other
// tag files.
type Declared struct {
	Major, Minor int
	Encoding     Encoding
}

// IsFinal reports whether the rules of version 1.0 apply to the bag: each payload manifest lists
// each file of the payload, once. In earlier versions, one manifest that lists a file is enough.
func (d Declared) IsFinal() bool { return d.Major >= 1 }

// InfoName returns the name of the file with the elements of the bag.
func (d Declared) InfoName() string {
	if d.Major == 0 && 0 < d.Minor && d.Minor < 96 {
		return oldInfoName
	}
	return InfoName
}

// UnsupportedError describes a bag that may be valid and that Sealift cannot read.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string { return e.Reason }

var (
	byteOrderMark = []byte("\xef\xbb\xbf")
	versionForm   = regexp.MustCompile(`^([0-9]{1,4})\.([0-9]{1,4})$`)
)

// ReadDeclaration reads bagit.txt. The error is an *UnsupportedError if it declares a version or
// an encoding that Sealift does not read. Otherwise it says why bagit.txt is not valid.
func ReadDeclaration(r io.Reader) (d Declared, err error) {
	content, err := io.ReadAll(io.LimitReader(r, maxDeclaration+1))
	switch {
	case err != nil:
		return d, err
	case len(content) > maxDeclaration:
		return d, fmt.Errorf("it is longer than %d bytes", maxDeclaration)
	case bytes.HasPrefix(content, byteOrderMark):
		return d, errors.New("it begins with a byte order mark, which RFC 8493 forbids")
	case len(content) > 1 && (content[0] == 0 || content[1] == 0 || content[0] >= 0xfe):
		return d, errors.New("it is in UTF-16 or UTF-32, and has to be in UTF-8")
	}
	lines := strings.Split(strings.TrimRight(unifyLineEnds(string(content)), " \t\n"), "\n")
	if len(lines) != 2 {
		return d, fmt.Errorf("there have to be two lines, BagIt-Version and Tag-File-Character-Encoding, but it has %d", len(lines))
	}
	version, blank, ok := valueOf(lines[0], "BagIt-Version")
	number := versionForm.FindStringSubmatch(version)
	if !ok || number == nil {
		return d, errors.New("line 1 is not \"BagIt-Version: 1.0\" or the like")
	}
	d.Major, _ = strconv.Atoi(number[1])
	d.Minor, _ = strconv.Atoi(number[2])
	encoding, blankToo, ok := valueOf(lines[1], "Tag-File-Character-Encoding")
	if !ok {
		return d, errors.New("line 2 is not \"Tag-File-Character-Encoding: UTF-8\" or the like")
	}
	if d.Major != 1 || d.Minor != 0 {
		if d.Major != 0 || d.Minor < 93 || 97 < d.Minor {
			return d, &UnsupportedError{fmt.Sprintf("BagIt %s is not supported; versions 0.93 to 1.0 are", version)}
		}
	} else if blank || blankToo {
		return d, errors.New("a label ends with white space, which RFC 8493 forbids")
	}
	if d.Encoding, ok = encodingOf(encoding); !ok {
		return d, &UnsupportedError{fmt.Sprintf("the tag files are in %.40q, which is not supported; UTF-8, ISO-8859-1 and UTF-16 are", encoding)}
	}
	return d, nil
}

// valueOf returns the value of a line with a label. blank reports whether white space is
// between the label and the colon.
func valueOf(line, label string) (value string, blank, ok bool) {
	name, value, ok := strings.Cut(line, ":")
	trimmed := strings.TrimRight(name, " \t")
	return strings.Trim(value, " \t"), trimmed != name, ok && trimmed == label
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
