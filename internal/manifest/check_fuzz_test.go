package manifest

import (
	"bytes"
	"encoding/hex"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// modelLine is a line as a model of a check reader reads it: an entry, nothing, or a
// malformed line.
type modelLine struct {
	Line
	nothing, malformed bool
}

var (
	modelUntagged = regexp.MustCompile(`(?s)^[ \t]*(\\?)([0-9a-fA-F]+)[ \t](.+)$`)
	modelPadded   = regexp.MustCompile(`^([ \t]*\\?[A-Za-z][-A-Za-z0-9/_]*) +\(`)
	modelInBag    = regexp.MustCompile(`(?s)^[ \t]*([0-9a-fA-F]+)[ \t]+([^ \t].*)$`)
	modelEscapes  = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\`, "\x00")
	modelPercents = strings.NewReplacer("%0A", "\n", "%0a", "\n", "%0D", "\r", "%0d", "\r", "%25", "%")
)

// modelOfSums parses the lines of GNU, with ParseLine for the forms that it knows.
func modelOfSums() func(line string) modelLine {
	oneSpace := map[int]bool{}
	return func(line string) modelLine {
		line = strings.TrimSuffix(line, "\r")
		found := modelUntagged.FindStringSubmatch(line)
		if found == nil || len(found[2]) < 32 || len(found[2])%2 != 0 {
			l, err := parseLine([]byte(modelPadded.ReplaceAllString(line, "$1 (")))
			return modelLine{Line: l, nothing: err == errNothing, malformed: err == errMalformed}
		}
		name, length := found[3], min(len(found[2]), 130)
		twoCharacters := len(name) > 1 && strings.ContainsRune(" *", rune(name[0]))
		if _, ok := oneSpace[length]; !ok {
			oneSpace[length] = !twoCharacters
		}
		if !oneSpace[length] {
			l, err := parseLine([]byte(line))
			return modelLine{Line: l, malformed: err != nil || !twoCharacters}
		}
		if strings.Contains(name, "\x00") {
			return modelLine{malformed: true}
		}
		if found[1] != "" {
			if name = modelEscapes.Replace(name); strings.Contains(name, "\x00") {
				return modelLine{malformed: true}
			}
		}
		digest, err := hex.DecodeString(found[2])
		return modelLine{Line: Line{Path: name, Digest: digest}, malformed: err != nil}
	}
}

// modelOfBagIt parses the lines of BagIt that end with line feeds.
func modelOfBagIt(line string) modelLine {
	if strings.Trim(line, " \t") == "" || line[0] == '#' {
		return modelLine{nothing: true}
	}
	found := modelInBag.FindStringSubmatch(line)
	if found == nil || len(found[1]) < 32 || len(found[1])%2 != 0 || strings.Contains(found[2], "\x00") {
		return modelLine{malformed: true}
	}
	digest, err := hex.DecodeString(found[1])
	name := strings.TrimPrefix(found[2], "*")
	if name == "" {
		return modelLine{malformed: true}
	}
	l := Line{Path: modelPercents.Replace(name), Digest: digest}
	if l.Path != name {
		l.Literal = name
	}
	return modelLine{Line: l, malformed: err != nil}
}

// checkAgainstModel compares a check reader with a model on the complete text. lineText is
// the text with a line feed for each line end.
func checkAgainstModel(t *testing.T, f Format, text []byte, lineText string, maxLine int, model func() func(string) modelLine) {
	t.Helper()
	for _, src := range []io.Reader{
		bytes.NewReader(text),
		iotest.HalfReader(bytes.NewReader(text)),
		iotest.DataErrReader(bytes.NewReader(text)),
	} {
		lines := newLineReader(src, maxLine, &sumParser{forms: new(forms)})
		if f == BagIt {
			lines = newLineReader(newLineFeeder(src), maxLine, &bagParser{})
		}
		r, parse := &Reader{in: lines}, model()
		number, malformed := 0, 0
		for line := range strings.Lines(lineText) {
			number++
			line = strings.TrimSuffix(line, "\n")
			tooLong := len(line) >= maxLine
			if number == 1 {
				line = strings.TrimPrefix(line, bom)
			}
			if tooLong {
				malformed++
				continue
			}
			want := parse(line)
			if want.nothing {
				continue
			}
			if want.malformed {
				malformed++
				continue
			}
			got, err := r.Next()
			if err != nil || r.Number() != number {
				t.Fatalf("line %d: got %+v in line %d, %v, want %+v", number, got, r.Number(), err, want.Line)
			}
			require.Equal(t, want.Line, got)
			if strings.ContainsRune(got.Path, 0) || got.Path == "" || len(got.Digest) < 16 || got.Literal == got.Path {
				t.Fatalf("line %d: %+v", number, got)
			}
		}
		if l, err := r.Next(); err != io.EOF {
			t.Fatalf("after the last line: %+v, %v", l, err)
		}
		if count, kept := r.Malformed(); count != malformed || len(kept) != min(count, maxMalformedKept) {
			t.Fatalf("%d malformed lines (%v), want %d", count, kept, malformed)
		}
		used := 0
		switch p := lines.parser.(type) {
		case *sumParser:
			used = cap(p.path) + cap(p.digest)
		case *bagParser:
			used = cap(p.path) + cap(p.digest)
		}
		if used > 4*maxLine+1024 {
			t.Fatalf("%d bytes kept for lines of %d", used, maxLine)
		}
	}
}

// fuzzedLimits returns lengths of the longest line to try: one that cuts short lines, and
// MaxLine or less, which is the same for a shorter text.
func fuzzedLimits(text []byte, limit uint8) []int {
	return []int{64 + int(limit), min(len(text)+16, MaxLine)}
}

func FuzzCheckSums(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte, limit uint8) {
		for _, maxLine := range fuzzedLimits(text, limit) {
			checkAgainstModel(t, GNU, text, string(text), maxLine, modelOfSums)
		}
	})
}

func FuzzCheckBagIt(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte, limit uint8) {
		lineText := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\r", "\n")
		for _, maxLine := range fuzzedLimits(text, limit) {
			checkAgainstModel(t, BagIt, text, lineText, maxLine, func() func(string) modelLine { return modelOfBagIt })
		}
	})
}

// FuzzStyle writes two paths in each style and in the form of a bag, and reads them back.
func FuzzStyle(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second string, size uint8) {
		digest := bytes.Repeat([]byte{0xe3, 0x5f}, 8+int(size)%25) // of 16 bytes to 64
		paths := []string{first, second, first}
		for _, path := range paths {
			if path == "" || strings.ContainsRune(path, 0) {
				return
			}
		}
		for _, style := range []struct {
			Sums
			a    hash.Algorithm
			zero bool
		}{{GNU, "", false}, {BSD, hash.SHA256, false}, {GNU, "", true}, {BSD, hash.MD5, true}} {
			var text []byte
			for _, path := range paths {
				text = style.appendLine(text, style.a, digest, []byte(path), style.zero)
			}
			if style.zero {
				if parts := bytes.Split(text, []byte{0}); len(parts) != len(paths)+1 || len(parts[len(paths)]) != 0 {
					t.Fatalf("%q is not %d lines", text, len(paths))
				}
				continue
			}
			for _, end := range []string{"\n", "\r\n"} {
				converted := strings.ReplaceAll(string(text), "\n", end)
				for _, start := range []string{"", bom, hexB + "  x" + end} {
					requireReadBack(t, GNU, start+converted, paths, digest, strings.ToUpper(string(style.a)))
				}
			}
		}

		// A bag's writer encodes three characters. It cannot write a path that begins with
		// a blank, or with the mark of md5sum.
		text, rest := "", []string(nil)
		for _, path := range paths {
			if strings.ContainsRune(" \t*", rune(path[0])) {
				continue
			}
			encoded := strings.NewReplacer("%", "%25", "\n", "%0A", "\r", "%0D").Replace(path)
			text += hex.EncodeToString(digest) + " " + encoded + "\n"
			rest = append(rest, path)
		}
		requireReadBack(t, BagIt, text, rest, digest, "")

		// If it encodes nothing, the path is the first spelling or the second one.
		if path := first; len(rest) == len(paths) && !strings.ContainsAny(path, "\r\n") {
			l, err := NewReader(strings.NewReader(hex.EncodeToString(digest)+"\t"+path), BagIt, "").Next()
			if err != nil || l.Path != path && l.Literal != path {
				t.Fatalf("%q reads back as %+v, %v", path, l, err)
			}
		}
	})
}

// requireReadBack checks that text contains the paths, perhaps after a line "x".
func requireReadBack(t *testing.T, f Format, text string, paths []string, digest []byte, tag string) {
	t.Helper()
	r := NewReader(strings.NewReader(text), f, "")
	lines, _, err := readAll(r)
	if len(lines) == len(paths)+1 && lines[0].Path == "x" {
		lines = lines[1:]
	}
	if count, _ := r.Malformed(); err != nil || count != 0 || len(lines) != len(paths) {
		t.Fatalf("%q reads back as %+v, %v", text, lines, err)
	}
	for i, l := range lines {
		if l.Path != paths[i] || !bytes.Equal(l.Digest, digest) || l.Algorithm != tag {
			t.Fatalf("%q reads back as %+v, want %q", text, l, paths[i])
		}
	}
}
