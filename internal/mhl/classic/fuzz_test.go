package classic

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

// FuzzReader checks that each list is read to its end or refused with a line. Each entry is
// safe, and the same when it is read by its offset.
func FuzzReader(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(entry("<file>a</file><size>1</size><null/>")))
	f.Add([]byte("<hashlist><hash/></hashlist>"))
	f.Fuzz(func(t *testing.T, document []byte) {
		r := NewReader(bytes.NewReader(document))
		for {
			e, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				if !errors.As(err, new(*safexml.Error)) {
					t.Fatalf("%q: %v", document, err)
				}
				return
			}
			if e.Path == "" || leavesTree(e.Path) || e.Size < -1 || e.SizeOnly && (e.Size < 0 || len(e.Digests) > 0) {
				t.Fatalf("%q: %+v", document, e)
			}
			for _, d := range e.Digests {
				if len(d.Digest) != d.Algorithm.Size() {
					t.Fatalf("%q: %+v", document, e)
				}
			}
			again, err := ReadEntry(bytes.NewReader(document[e.Offset:]))
			if err != nil || again.Path != e.Path || again.Size != e.Size || len(again.Digests) != len(e.Digests) {
				t.Fatalf("%q: %+v, and by its offset %+v, %v", document, e, again, err)
			}
		}
	})
}

// FuzzWriter checks that each path that can be written reads back unchanged.
func FuzzWriter(f *testing.F) {
	for _, path := range []string{"a", " a\r\n", "&<]]>", "\xff", "\u0085", "../a"} {
		f.Add(path, int64(1), int64(2))
	}
	f.Fuzz(func(t *testing.T, path string, size, mtime int64) {
		if path == "" || !safexml.CanHold(path) || leavesTree(path) || leavesTree(string(bytes.TrimSpace([]byte(path)))) || size < 0 {
			return
		}
		e := Entry{Path: path, Size: size, Digests: []hash.Expected{{Algorithm: hash.MD5, Digest: make([]byte, 16)}}}
		text := write(t, []Entry{e}, mtime, hash.MD5)
		got, err := readAll(bytes.NewReader([]byte(text)))
		if !errors.Is(err, io.EOF) || len(got) != 1 || got[0].Path != path || got[0].Size != size {
			t.Fatalf("%s reads back as %+v, %v", text, got, err)
		}
	})
}
