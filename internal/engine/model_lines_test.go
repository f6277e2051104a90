//go:build linux

package engine_test

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// The parsers in this file are independent of internal/manifest, because they check what it writes.

// digests of one manifest: lower-case hex by path.
type lines map[string]string

// digestOf is the digest of content in lower-case hex.
func digestOf(a hash.Algorithm, content string) string {
	switch a {
	case hash.SHA256:
		sum := sha256.Sum256([]byte(content))
		return hex.EncodeToString(sum[:])
	case hash.MD5:
		sum := md5.Sum([]byte(content)) //nolint:gosec // see above
		return hex.EncodeToString(sum[:])
	}
	panic("the model does not compute " + string(a))
}

// render writes lines in the form of Sealift's manifests.
func (l lines) render() string {
	var b strings.Builder
	for _, p := range sortedPaths(l) {
		b.WriteString(gnuLine(l[p], "  ", p))
	}
	return b.String()
}

func gnuLine(digest, mark, p string) string {
	if !strings.ContainsAny(p, "\\\n\r") {
		return digest + mark + p + "\n"
	}
	return `\` + digest + mark + strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(p) + "\n"
}

func sortedPaths(l lines) []string {
	t := tree{}
	for p := range l {
		t[p] = node{}
	}
	return t.paths()
}

// parseOwn reads a manifest in exactly Sealift's form: GNU lines of one hash in strictly
// ascending order. Lines with the mark of binary mode are those of earlier versions;
// marked counts them. The error says what is not in the form.
func parseOwn(a hash.Algorithm, content string) (l lines, marked int, err error) {
	l = lines{}
	last := ""
	for number := 1; content != ""; number++ {
		line, rest, ended := strings.Cut(content, "\n")
		content = rest
		digest, mark, p, ok := splitGNU(line, 2*a.Size())
		switch {
		case !ended:
			return nil, 0, fmt.Errorf("line %d does not end in a line feed", number)
		case !ok || strings.Trim(digest, "0123456789abcdef") != "":
			return nil, 0, fmt.Errorf("line %d is not a GNU line of %s: %q", number, a, line)
		case p != "./-" && (p == "-" || p != path.Clean(p)):
			return nil, 0, fmt.Errorf("line %d has a path that a walk does not give: %q", number, p)
		}
		if p == "./-" {
			p = "-"
		}
		if number > 1 && p <= last {
			return nil, 0, fmt.Errorf("line %d is not in ascending order: %q after %q", number, p, last)
		}
		if mark == '*' {
			marked++
		}
		l[p], last = digest, p
	}
	return l, marked, nil
}

// splitGNU splits a line in the form of sha256sum. digits is the length of the digest in hex.
func splitGNU(line string, digits int) (digest string, mark byte, p string, ok bool) {
	line, escaped := strings.CutPrefix(line, `\`)
	if len(line) < digits+3 || line[digits] != ' ' || line[digits+1] != ' ' && line[digits+1] != '*' {
		return "", 0, "", false
	}
	digest, mark, p = line[:digits], line[digits+1], line[digits+2:]
	if _, err := hex.DecodeString(digest); err != nil || strings.ContainsAny(p, "\r\x00") {
		return "", 0, "", false
	}
	if escaped {
		p, ok = unescapeName(p)
		return digest, mark, p, ok
	}
	return digest, mark, p, !strings.Contains(p, `\`)
}

func unescapeName(p string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		c := p[i]
		if c == '\\' {
			i++
			if i == len(p) {
				return "", false
			}
			switch p[i] {
			case '\\':
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			default:
				return "", false
			}
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// listing is what a manifest in any form lists.
type listing struct {
	digests   map[string][]string // by path as a walk gives it
	malformed int                 // lines that are no entries of the hash
	bare      string              // the only word of the file, if that is a digest
}

// parseAny reads a manifest in the forms that the histories use: GNU and BSD lines, with
// a byte order mark, comments, carriage returns, and names that begin with "./".
func parseAny(a hash.Algorithm, content string) listing {
	l := listing{digests: map[string][]string{}}
	digits := 2 * a.Size()
	content = strings.TrimPrefix(content, "\xef\xbb\xbf")
	if word := strings.TrimSpace(content); len(word) == digits && strings.Trim(word, "0123456789abcdefABCDEF") == "" {
		l.bare = strings.ToLower(word)
	}
	for line := range strings.SplitSeq(content, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		digest, _, p, ok := splitGNU(line, digits)
		if !ok {
			digest, p, ok = splitBSD(line, strings.ToUpper(string(a)), digits)
		}
		if !ok {
			l.malformed++
			continue
		}
		p = path.Clean(p)
		l.digests[p] = append(l.digests[p], strings.ToLower(digest))
	}
	return l
}

// splitBSD takes "TAG (name) = hex" apart.
func splitBSD(line, tag string, digits int) (digest, p string, ok bool) {
	rest, ok := strings.CutPrefix(line, tag+" (")
	end := strings.LastIndex(rest, ") = ")
	if !ok || end < 1 {
		return "", "", false
	}
	digest = rest[end+len(") = "):]
	_, err := hex.DecodeString(digest)
	return digest, rest[:end], err == nil && len(digest) == digits
}

// isOwnForm reports whether a node is a regular file in Sealift's form. An empty file
// is, with no lines.
func isOwnForm(a hash.Algorithm, n node) bool {
	if n.kind != file {
		return false
	}
	_, _, err := parseOwn(a, n.data)
	return err == nil
}

// ownLines are the lines of a manifest that isOwnForm accepts.
func ownLines(a hash.Algorithm, n node) lines {
	l, _, err := parseOwn(a, n.data)
	if err != nil {
		panic(err)
	}
	return l
}

// signed reports whether a detached signature is beside the file at p.
func signed(t tree, p string) bool {
	for _, ext := range []string{".asc", ".sig", ".gpg"} {
		if t[p+ext].kind != absent {
			return true
		}
	}
	return false
}

// unsigned returns the tree without the files that have a detached signature.
func (t tree) unsigned() tree {
	u := maps.Clone(t)
	maps.DeleteFunc(u, func(p string, _ node) bool { return signed(t, p) })
	return u
}
