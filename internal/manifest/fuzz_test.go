package manifest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func FuzzParseLine(f *testing.F) {
	f.Fuzz(func(t *testing.T, line []byte, path string) {
		before := bytes.Clone(line)
		l, err := parseLine(line)
		if !bytes.Equal(line, before) {
			t.Fatalf("ParseLine changed %q to %q", before, line)
		}
		digest := []byte("sixteen bytes!!!")
		switch {
		case err == nil:
			if l.Path == "" || strings.ContainsRune(l.Path, 0) || len(l.Digest) < 16 {
				t.Fatalf("parseLine(%q) = %+v", line, l)
			}
			digest = l.Digest
			checkRoundTrip(t, digest, l.Path)
		case !errors.Is(err, errNothing) && !errors.Is(err, errMalformed):
			t.Fatal(err)
		}
		checkRoundTrip(t, digest, path)
	})
}

// checkRoundTrip checks that the line of a path is one line and reads back unchanged. If no
// file can have the path, it does not read back.
func checkRoundTrip(t *testing.T, digest []byte, path string) {
	written := appendLine(nil, digest, path)
	line, rest, ok := bytes.Cut(written, []byte("\n"))
	if !ok || len(rest) > 0 {
		t.Fatalf("appendLine(%q) = %q", path, written)
	}
	l, err := parseLine(line)
	if path == "" || strings.ContainsRune(path, 0) {
		if !errors.Is(err, errMalformed) {
			t.Fatalf("%q was accepted: %v", line, err)
		}
		return
	}
	if err != nil || l.Path != path || !bytes.Equal(l.Digest, digest) || l.Algorithm != "" {
		t.Fatalf("%q reads back as %+v, %v", written, l, err)
	}
}

// FuzzReader compares the Reader with a parser of the complete text.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte, limit uint8) {
		maxLine := 16 + int(limit) // bufio's buffers have at least 16 bytes
		for _, src := range []io.Reader{
			bytes.NewReader(text),
			iotest.OneByteReader(bytes.NewReader(text)),
			iotest.DataErrReader(bytes.NewReader(text)),
		} {
			in := newLineReader(src, maxLine, &sumParser{})
			r := &Reader{in: in}
			malformed := 0
			lines := bytes.Split(text, []byte("\n"))
			if len(lines[len(lines)-1]) == 0 {
				lines = lines[:len(lines)-1]
			}
			offset := 0
			for i, line := range lines {
				if i == 0 {
					line = bytes.TrimPrefix(line, byteOrderMark)
				}
				want, err := parseLine(line)
				if len(line) >= maxLine || errors.Is(err, errMalformed) {
					malformed++
				} else if err == nil {
					got, err := r.Next()
					if err != nil || got.Path != want.Path || got.Algorithm != want.Algorithm || !bytes.Equal(got.Digest, want.Digest) {
						t.Fatalf("line %d: got %+v, %v, want %+v", i+1, got, err, want)
					}
					if r.Number() != i+1 || in.offset != int64(offset) {
						t.Fatalf("line %d at %d is said to be line %d at %d", i+1, offset, r.Number(), in.offset)
					}
				}
				offset += len(line) + 1
			}
			if l, err := r.Next(); err != io.EOF {
				t.Fatalf("after the last line: %+v, %v", l, err)
			}
			if count, kept := r.Malformed(); count != malformed || len(kept) != min(count, maxMalformedKept) {
				t.Fatalf("%d malformed lines (%v), want %d", count, kept, malformed)
			}
			if in.end != int64(len(text)) {
				t.Fatalf("%d bytes read of %d", in.end, len(text))
			}
		}
	})
}
