package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// Lines of every algorithm and style, also with the asterisk of earlier versions, are read
// again with the same meaning and no other one.
func TestLinesOfEveryAlgorithm(t *testing.T) {
	for _, algorithm := range hash.All() {
		for _, tagged := range []bool{false, true} {
			a, b := digestsOf(algorithm)
			builder := newBuilder(algorithm, noSpill, 0)
			require.NoError(t, putIn(builder, "new\nline", a))
			require.NoError(t, putIn(builder, "kept", b))
			text := written(t, builder, Document{Format: formatFor(algorithm, tagged)})
			want := []Line{{Path: "kept", Digest: b}, {Path: "new\nline", Digest: a}}
			if !tagged && !algorithm.NeedsTag() {
				text += algorithm.Text(a) + " *old\n"
				want = append(want, Line{Path: "old", Digest: a})
			}

			var got []Line
			for r := NewReader(strings.NewReader(text), GNU, algorithm); ; {
				l, err := r.Next()
				if errors.Is(err, io.EOF) {
					n, _ := r.Malformed()
					require.Zero(t, n, "%s", text)
					break
				}
				require.NoError(t, err)
				l.Digest = bytes.Clone(l.Digest)
				if l.Algorithm != "" {
					require.Equal(t, algorithm, hash.OfTag(l.Algorithm))
				}
				l.Algorithm = ""
				got = append(got, l)
			}
			require.Equal(t, want, got, "%s", text)

			ix, err := BuildCheckIndex(strings.NewReader(text), int64(len(text)), GNU, algorithm)
			require.NoError(t, err)
			require.Equal(t, len(want), ix.Len(), "%s", text)
			for _, l := range want {
				requireListed(t, ix, l.Path, hex.EncodeToString(l.Digest))
			}
			for _, other := range hash.All() {
				ix, err := BuildCheckIndex(strings.NewReader(text), int64(len(text)), GNU, other)
				require.NoError(t, err)
				if other != algorithm && tagged {
					require.Zero(t, ix.Len(), "%s is not %s: %s", algorithm, other, text)
				}
			}
			require.NoError(t, builder.Close())
		}
	}
}

// Forms of lines that are not those of sha256sum.
func TestFormsOfLines(t *testing.T) {
	for _, tt := range []struct {
		algorithm hash.Algorithm
		format    Format
		want      string
	}{
		{hash.XXH64, GNU, "44bc2cf5ad770999  a\n"},
		{hash.XXH64, BSD, "XXH64 (a) = 44bc2cf5ad770999\n"},
		{hash.XXH3, BSD, "XXH3 (a) = 78af5f94892f3950\n"},
		{hash.C4, GNU, c4ABC + "  a\n"},
		{hash.C4, BSD, "C4 (a) = " + c4ABC + "\n"},
	} {
		s := hash.NewSet([]hash.Algorithm{tt.algorithm})
		s.Write([]byte("abc"))
		b := newBuilder(tt.algorithm, noSpill, 0)
		require.NoError(t, putIn(b, "a", s.Digests()[0]))
		require.Equal(t, tt.want, written(t, b, Document{Format: tt.format}))
		require.NoError(t, b.Close())
	}
	// The tool treats untagged digests as XXH64, so none is written by default.
	b := newBuilder(hash.XXH3, noSpill, 0)
	digest, _ := digestsOf(hash.XXH3)
	require.NoError(t, putIn(b, "a", digest))
	require.Equal(t, "XXH3 (a) = "+hash.XXH3.Text(digest)+"\n", written(t, b, Document{}))
	require.NoError(t, b.Close())
}

// A short digest, or one that is not in hexadecimal, counts only if a tag or the name of
// the file gives the algorithm.
func TestDigestsThatNeedAName(t *testing.T) {
	const short = "44bc2cf5ad770999"
	for _, tt := range []struct {
		line string
		by   map[hash.Algorithm]bool // read if untagged lines are of the algorithm
		tag  string
	}{
		{line: short + "  a", by: map[hash.Algorithm]bool{hash.XXH64: true, hash.XXH3: true}},
		{line: short + " *a", by: map[hash.Algorithm]bool{hash.XXH64: true, hash.XXH3: true}},
		{line: strings.ToUpper(short) + "  a", by: map[hash.Algorithm]bool{hash.XXH64: true, hash.XXH3: true}},
		{line: short[:8] + "  a", by: map[hash.Algorithm]bool{hash.XXH32: true}},
		{line: short[:6] + "  a"},
		{line: short + short[:8] + "  a"},
		{line: "deadbeefdeadbee  a"},
		{line: c4ABC + "  a", by: map[hash.Algorithm]bool{hash.C4: true}},
		{line: c4ABC + " *a", by: map[hash.Algorithm]bool{hash.C4: true}},
		{line: c4ABC + " a"},
		{line: c4ABC + "1  a"},
		{line: c4ABC},
		{line: c4ABC + "  "},
		{line: strings.Replace(c4ABC, "c4", "C4", 1) + "  a"},
		{line: "XXH64 (a) = " + short, tag: "XXH64"},
		{line: "XXH3 (a) = " + short, tag: "XXH3"},
		{line: "XXH3_" + short + "  a", tag: "XXH3"},
		{line: "XXH3_" + short + " *a", tag: "XXH3"},
		{line: "C4 (a) = " + c4ABC, tag: "C4"},
		{line: "C4 (a) = " + strings.Repeat("ab", 64)},
		{line: "SHA512 (a) = " + c4ABC},
		{line: "XXH64_" + short + "  a"},
		{line: "XXH3_" + short + " a"},
		{line: "XXH3_" + short},
		{line: "XXH3_" + short + "00  a"},
		{line: "CRC64 (a) = " + short},
		{line: "XXH32 (a) = " + short[:8], tag: "XXH32"},
		{line: "MD5 (a) = " + short},
		{line: "XXH64 (a) = " + short[:8]},
	} {
		for _, algorithm := range append(hash.All(), "") {
			for name, r := range map[string]*Reader{
				"two characters": {in: newLineReader(strings.NewReader(tt.line), MaxLine, &sumParser{algorithm: algorithm})},
				"check":          NewReader(strings.NewReader(tt.line), GNU, algorithm),
			} {
				if strings.HasSuffix(tt.line, short+" a") && name == "check" {
					continue // the form with one space
				}
				l, err := r.Next()
				if tt.tag == "" && !tt.by[algorithm] {
					require.ErrorIs(t, err, io.EOF, "%s, %s: %q", name, algorithm, tt.line)
					n, _ := r.Malformed()
					require.Equal(t, 1, n, "%s, %s: %q", name, algorithm, tt.line)
					continue
				}
				require.NoError(t, err, "%s, %s: %q", name, algorithm, tt.line)
				require.Equal(t, "a", l.Path)
				require.Equal(t, tt.tag, l.Algorithm)
				require.NotEmpty(t, l.Digest)
			}
		}
	}
}

// A C4 manifest has no digests in hexadecimal, although those of SHA-512 have the length of
// a C4 ID.
func TestC4IsNoHexadecimal(t *testing.T) {
	text := strings.Repeat("ab", 64) + "  a\n"
	ix, err := BuildCheckIndex(strings.NewReader(text), int64(len(text)), GNU, hash.C4)
	require.NoError(t, err)
	require.Zero(t, ix.Len())
	require.Equal(t, 1, ix.Malformed())
}

func TestBagOfShortDigests(t *testing.T) {
	const text = "44bc2cf5ad770999  data/a%25\n"
	for _, algorithm := range []hash.Algorithm{hash.XXH64, hash.XXH3} {
		l, err := NewReader(strings.NewReader(text), BagIt, algorithm).Next()
		require.NoError(t, err)
		require.Equal(t, "data/a%", l.Path)
		require.Len(t, l.Digest, algorithm.Size())
	}
	_, err := NewReader(strings.NewReader(text), BagIt, hash.SHA256).Next()
	require.ErrorIs(t, err, io.EOF)
}

// If text is read as a line of an algorithm, it can be written again with the same meaning.
func FuzzLinesOfAlgorithms(f *testing.F) {
	for i, line := range []string{
		c4ABC + "  a", `\` + c4ABC + ` *a\nb`, "C4 (a) = " + c4ABC, "44bc2cf5ad770999  a", "44bc2cf5ad770999 a",
		"XXH64 (a) = 44bc2cf5ad770999", "XXH3_78af5f94892f3950 *a", `\XXH3_78af5f94892f3950  a\\b`, hexA + "  a", "deadbeefdeadbeef\tdata/a",
	} {
		f.Add([]byte(line), byte(i), false)
		f.Add([]byte(line), byte(i), true)
	}
	all := append(hash.All(), "")
	f.Fuzz(func(t *testing.T, line []byte, which byte, strict bool) {
		algorithm := all[int(which)%len(all)]
		p := sumParser{algorithm: algorithm}
		if !strict {
			p.forms = new(forms)
		}
		got, err := p.parse(line)
		if err != nil {
			return
		}
		of := algorithm
		if len(got.tag) > 0 {
			of = hash.OfTag(got.tag)
		}
		if len(got.digest) < minHexDigits/2 && (!of.Known() || len(got.digest) != of.Size()) || !of.IsHex() && len(got.digest) != of.Size() {
			t.Fatalf("%q of %q has a digest of %d bytes", line, algorithm, len(got.digest))
		}
		if !of.Known() || len(got.digest) != of.Size() {
			return // of another kind
		}
		path, digest := bytes.Clone(got.path), bytes.Clone(got.digest)
		written := formatFor(of, len(got.tag) > 0).appendLine(nil, of, digest, path, false)
		again, err := (&sumParser{algorithm: of}).parse(bytes.TrimSuffix(written, []byte("\n")))
		if err != nil || !bytes.Equal(again.path, path) || !bytes.Equal(again.digest, digest) {
			t.Fatalf("%q of %q was written as %q, which is %q, %x, %v", line, algorithm, written, again.path, again.digest, err)
		}
	})
}
