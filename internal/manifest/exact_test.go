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

func ownIndex(text string, a hash.Algorithm) (*Index, error) {
	return BuildExactIndex(strings.NewReader(text), int64(len(text)), a)
}

func TestOwnIndexAcceptsWhatBuilderWrites(t *testing.T) {
	paths := []string{"-", "B", "a", "a b", "a/b", "a\nb", `a\`, "a\r", ".a/..b", " ", "*", "(a) = ", "\xff", strings.Repeat("d/", 4000) + "f"}
	for _, algorithm := range hash.Algorithms() {
		digest, _ := digestsOf(algorithm)
		for _, tagged := range []bool{false, true} {
			b := newBuilder(algorithm, noSpill, 0)
			format := formatFor(algorithm, tagged)
			for _, path := range paths {
				require.NoError(t, putIn(b, path, digest))
			}
			text := written(t, b, Document{Format: format})
			blocks, err := ExactBlocks(strings.NewReader(text), int64(len(text)), format, false, algorithm)
			require.NoError(t, err, algorithm)
			require.Len(t, blocks, 1)

			ix, err := ownIndex(text, algorithm)
			if tagged && !algorithm.NeedsTag() {
				require.EqualError(t, err, "line 1 is not written as Sealift writes it", algorithm)
				continue
			}
			require.NoError(t, err, algorithm)
			require.Equal(t, len(paths), ix.Len())
			for _, path := range paths {
				requireListed(t, ix, path, hex.EncodeToString(digest))
			}
			for _, other := range hash.Algorithms() {
				_, err := ownIndex(text, other)
				if similar := digestsLookAlike(algorithm, other); similar {
					require.NoError(t, err, "%s, %s", algorithm, other)
				} else {
					require.ErrorAs(t, err, new(*FormError), "%s, %s", algorithm, other)
				}
			}
		}
		ix, err := ownIndex("", algorithm)
		require.NoError(t, err)
		require.Zero(t, ix.Len())
	}
}

// digestsLookAlike reports whether untagged lines of one algorithm can be those of the
// other.
func digestsLookAlike(a, b hash.Algorithm) bool {
	return a == b || a.Size() == b.Size() && a.IsHex() && b.IsHex() && !a.NeedsTag() && !b.NeedsTag()
}

// Earlier versions wrote an asterisk before some names.
func TestOwnIndexAcceptsTheAsterisk(t *testing.T) {
	for _, algorithm := range hash.Algorithms() {
		first, second := digestsOf(algorithm)
		x, y := algorithm.Text(first), algorithm.Text(second)
		ix, err := ownIndex(x+" *a\n"+y+"  b\n\\"+x+` *c\n`+"\n", algorithm)
		if algorithm.NeedsTag() { // earlier versions did not write it
			require.ErrorAs(t, err, new(*FormError), algorithm)
			_, err = ownIndex(algorithm.Tags()[0]+"_"+x+" *a\n", algorithm)
			require.EqualError(t, err, "line 1 is not written as Sealift writes it", algorithm)
			continue
		}
		require.NoError(t, err, algorithm)
		requireListed(t, ix, "a", hex.EncodeToString(first))
		requireListed(t, ix, "b", hex.EncodeToString(second))
		requireListed(t, ix, "c\n", hex.EncodeToString(first))
	}
}

func TestOwnIndexRefusesEverythingElse(t *testing.T) {
	a, b := hexA+"  a\n", hexB+"  b\n"
	const (
		kind    = "is not a line of this kind of manifest"
		written = "is not written as Sealift writes it"
		order   = "is not in ascending order"
	)
	for text, want := range map[string]FormError{
		"no manifest\n":                     {1, kind},
		a + "\n":                            {2, kind},
		"# comment\n" + a:                   {1, kind},
		bom + a:                             {1, kind},
		a + "-----END PGP SIGNATURE-----\n": {2, kind},
		hexA[:32] + "  a\n":                 {1, kind},
		hexA + hexA + "  a\n":               {1, kind},
		hexA + " a\n":                       {1, kind},
		"SHA256 (a) = " + hexA + "\n":       {1, written},
		"BLAKE3 (a) = " + hexA + "\n":       {1, kind},
		hexA + "\n":                         {1, kind},
		a + "\x00":                          {2, kind},
		hexA + "  " + strings.Repeat("n", MaxLine) + "\n": {1, kind},
		strings.TrimSuffix(a, "\n"):                       {1, written},
		hexA + "  a\r\n":                                  {1, written},
		strings.ToUpper(hexA) + "  a\n":                   {1, written},
		" " + a:                                           {1, written},
		hexA + "\t a\n":                                   {1, written},
		`\` + hexA + "  a\n":                              {1, written},
		hexA + `  a\b` + "\n":                             {1, written},
		hexA + "  ./a\n":                                  {1, written},
		hexA + "  a//b\n":                                 {1, written},
		hexA + "  a/\n":                                   {1, written},
		hexA + "  /a\n":                                   {1, written},
		hexA + "  ..\n":                                   {1, written},
		hexA + "  a/../b\n":                               {1, written},
		hexA + "  .\n":                                    {1, written},
		hexA + "  -\n":                                    {1, written},
		b + a:                                             {2, order},
		a + a:                                             {2, order},
		a + hexA + " *a\n":                                {2, order},
		hexA + "  a-\n" + hexA + "  ./-\n":                {2, order}, // it sorts as "-"
		hexA + "  b\n\\" + hexA + `  a\n` + "\n":          {2, order},
	} {
		_, err := ownIndex(text, hash.SHA256)
		form, ok := errors.AsType[*FormError](err)
		require.True(t, ok, "%.100q: %v", text, err)
		require.Equal(t, want, *form, "%.100q", text)
	}
	for _, text := range []string{
		a, "BLAKE3 (a) = " + hexA + "\n", "SHA256(a)= " + hexA + "\n", "SHA256  (a) = " + hexA + "\n", "SHA2-256 (a) = " + hexA + "\n",
	} {
		_, err := ExactBlocks(strings.NewReader(text), int64(len(text)), BSD, false, hash.SHA256)
		require.ErrorAs(t, err, new(*FormError), text)
	}
	short := hexA[:16]
	for text, a := range map[string]hash.Algorithm{
		short + "  a\n":                                     hash.XXH3, // xxhsum treats it as a digest of XXH64
		"XXH3_" + short + "  a\n":                           hash.XXH3,
		"XXH3 (a) = " + short + "\n":                        hash.XXH64,
		"XXH64 (a) = " + short + "\n":                       hash.XXH64,
		strings.ToUpper(short) + "  a\n":                    hash.XXH64,
		c4ABC[:89] + "  a\n":                                hash.C4,
		strings.Repeat(hexA, 2) + "  a\n":                   hash.C4,
		"C4 (a) = " + c4ABC + "\n":                          hash.C4,
		c4ABC + "  a\n":                                     hash.SHA512,
		strings.Repeat(hexA, 2) + "  a\n" + c4ABC + "  b\n": hash.SHA512,
	} {
		_, err := ownIndex(text, a)
		require.ErrorAs(t, err, new(*FormError), "%s: %s", a, text)
	}
}

func TestOwnIndexErrors(t *testing.T) {
	text := hexA + "  a\n"
	_, err := BuildExactIndex(&flaky{err: io.ErrClosedPipe}, 10, hash.SHA256)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	_, err = BuildExactIndex(strings.NewReader(text), int64(len(text))+1, hash.SHA256)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = ExactBlocks(&flaky{err: io.ErrClosedPipe}, 10, GNU, false, hash.SHA256)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	_, err = ExactBlocks(strings.NewReader(text), int64(len(text))+1, GNU, false, hash.SHA256)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// twoHashes are the builders of a file with lines of two hashes.
// block is what a Builder and a Document say of the lines in a file.
type block struct {
	format Sums
	named  bool
	hashes []hash.Algorithm
}

func TestOwnBlocks(t *testing.T) {
	plain, named := block{GNU, false, []hash.Algorithm{hash.SHA256}}, block{GNU, true, []hash.Algorithm{hash.SHA256}}
	two := block{BSD, false, []hash.Algorithm{hash.SHA256, hash.MD5}}
	sha := func(path string) string { return "SHA256 (" + path + ") = " + hexA + "\n" }
	md5 := func(path string) string { return "MD5 (" + path + ") = " + hexB[:32] + "\n" }
	for name, tt := range map[string]struct {
		block
		blocks []string // the blocks of the file
		want   string   // of the error
	}{
		"empty":                {plain, nil, ""},
		"empty, two hashes":    {two, nil, ""},
		"one hash":             {plain, []string{listing("a A", "b B")}, ""},
		"one hash, marked":     {plain, []string{hexA + " *a\n"}, ""},
		"as users name files":  {named, []string{listing("- A", "../b A", "./- A", "./a A", "/c A", "a A", "a//b A")}, ""},
		"standard input":       {plain, []string{listing("- A")}, "line 1 is not written as Sealift writes it"},
		"not in order":         {named, []string{listing("a A", "./a A")}, "line 2 is not in ascending order"},
		"two hashes":           {two, []string{sha("a") + sha("b"), md5("a") + md5("b")}, ""},
		"other paths":          {two, []string{sha("b"), md5("a")}, ""},
		"only the first":       {two, []string{sha("a") + sha("b")}, "line 2 is the last one, and there is none of MD5"},
		"only the second":      {two, []string{md5("a")}, "line 1 is not a line of this kind of manifest"},
		"in the other order":   {two, []string{md5("a"), sha("a")}, "line 1 is not a line of this kind of manifest"},
		"mixed":                {two, []string{sha("a"), md5("a"), sha("b")}, "line 3 is not a line of this kind of manifest"},
		"a block not in order": {two, []string{sha("a"), md5("b") + md5("a")}, "line 3 is not in ascending order"},
		"a third hash":         {two, []string{sha("a"), md5("a"), "SHA1 (a) = " + hexA[:40] + "\n"}, "line 3 is not a line of this kind of manifest"},
		"untagged":             {two, []string{sha("a"), hexA[:32] + "  a\n"}, "line 2 is not written as Sealift writes it"},
		"a line cut short":     {two, []string{sha("a"), md5("a")[:20]}, "line 2 is not a line of this kind of manifest"},
	} {
		text := strings.Join(tt.blocks, "")
		blocks, err := ExactBlocks(strings.NewReader(text), int64(len(text)), tt.format, tt.named, tt.hashes...)
		if tt.want != "" {
			require.ErrorAs(t, err, new(*FormError), name)
			require.EqualError(t, err, tt.want, name)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, blocks, len(tt.hashes), name)
		for i, want := range tt.blocks {
			got, err := io.ReadAll(blocks[i])
			require.NoError(t, err)
			require.Equal(t, want, string(got), name)
		}
	}
}

// The first line of a file is always parsed and written again. The lines after it that have the
// usual form are not. Every change of a byte has the same result in both.
func TestOwnLinesOfTheUsualForm(t *testing.T) {
	const before = "\x01 A" // comes before all changed paths
	accepts := func(text string) bool {
		_, err := ownIndex(text, hash.SHA256)
		if err != nil {
			require.ErrorAs(t, err, new(*FormError), "%q", text)
		}
		return err == nil
	}
	both := map[bool]int{}
	for _, path := range []string{"a", "-", "./-", "--", "d/b", "..a", "a b"} {
		line := strings.Repeat("09af", 16) + "  " + path + "\n"
		for at := range line {
			for _, c := range "\x00\t\r\\* /.-09:@AFG`afg\xff" {
				changed := line[:at] + string([]byte{byte(c)}) + line[at+1:]
				want := accepts(changed)
				both[want]++
				require.Equal(t, want, accepts(listing(before)+changed), "%q", changed)
			}
		}
		for at := range len(line) + 1 {
			require.Equal(t, accepts(line[at:]), accepts(listing(before)+line[at:]), "%q", line[at:])
			require.Equal(t, accepts(line[:at]), accepts(listing(before)+line[:at]) && at > 0 || at == 0, "%q", line[:at])
		}
	}
	require.Greater(t, min(both[true], both[false]), 100)
}

// FuzzOwn checks that a file which is accepted as one that Builder has written is
// byte for byte what Builder writes, the asterisks of earlier versions aside.
func FuzzOwn(f *testing.F) {
	f.Add([]byte(listing("./- A", "a A", "b B")), "p")
	f.Add([]byte(hexA+" *a\n\\"+hexB+`  b\\c\n\r`+"\n"), "q\nr")
	f.Add([]byte("SHA256 (a) = "+hexA+"\nSHA256 (b)) = "+hexB+"\n"), "./-")
	f.Add([]byte("SHA256 (a) = "+hexA+"\nMD5 (a) = "+hexB[:32]+"\n"), "-")
	f.Add([]byte("C4 (a) = "+c4ABC+"\nXXH3 (a) = "+hexB[:16]+"\nXXH64 (b) = "+hexB[:16]+"\n"), "*")
	f.Add([]byte(c4ABC+"  a\n\\"+c4ABC+` *b\r`+"\n"), "a) = b")
	f.Add([]byte(hexA[:16]+"  a\n"+hexA[:16]+" *b\n"), " ")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		for _, a := range hash.Algorithms() {
			one := []hash.Algorithm{a}
			if _, err := BuildExactIndex(bytes.NewReader(text), int64(len(text)), a); err == nil {
				require.True(t, requireRebuilt(t, text, block{FormatOf(a), false, one}))
			}
			requireOwn(t, a, FormatOf(a), path)
			requireOwn(t, a, BSD, path)
			requireRebuilt(t, text, block{FormatOf(a), true, one})
		}
		for _, hashes := range [][]hash.Algorithm{{hash.SHA256}, {hash.SHA256, hash.MD5}, {hash.C4, hash.XXH3, hash.XXH64}} {
			requireRebuilt(t, text, block{BSD, true, hashes})
		}
	})
}

// requireRebuilt checks that a Builder writes the text again from the entries that a Reader
// finds in it. If ExactBlocks accepts the text, a Builder that keeps all its lines must also
// write it again.
func requireRebuilt(t *testing.T, text []byte, of block) (accepted bool) {
	t.Helper()
	blocks, err := ExactBlocks(bytes.NewReader(text), int64(len(text)), of.format, of.named, of.hashes...)
	if err != nil || len(text) == 0 {
		return err == nil
	}
	var rebuilt, carried bytes.Buffer
	var without []byte // the asterisks
	total := 0
	for i, a := range of.hashes {
		b := newBuilder(a, noSpill, 0)
		b.Named = of.named
		lines, _, err := readAll(NewReader(blocks[i], GNU, a))
		require.NoError(t, err)
		total += len(lines)
		for _, l := range lines {
			require.NoError(t, putIn(b, l.Path, l.Digest))
			without = of.format.appendLine(without, a, l.Digest, []byte(l.Path), false)
		}
		n, err := b.Write(&rebuilt, Document{Format: of.format})
		require.NoError(t, err)
		require.Equal(t, Counts{Lines: len(lines)}, n)
	}
	empty := NewBuilder(of.hashes, noSpill, 0)
	empty.Named = of.named
	blocks, err = ExactBlocks(bytes.NewReader(text), int64(len(text)), of.format, of.named, of.hashes...)
	require.NoError(t, err)
	n, err := empty.Write(&carried, Document{Format: of.format, Previous: blocks})
	require.NoError(t, err)
	require.Equal(t, Counts{Lines: total}, n)
	require.Equal(t, string(without), rebuilt.String())
	require.Equal(t, string(without), carried.String())
	for len(text) > 0 { // the same, but for an asterisk in place of a blank
		if text[0] != without[0] {
			require.Equal(t, "*/ ", string(text[0])+"/"+string(without[0]))
		}
		text, without = text[1:], without[1:]
	}
	require.Empty(t, without)
	return true
}

// requireOwn checks that the line of a path is accepted if a tree can have that path.
func requireOwn(t *testing.T, a hash.Algorithm, format Sums, path string) {
	t.Helper()
	b := newBuilder(a, noSpill, 0)
	if putIn(b, path, bytes.Repeat([]byte{7}, a.Size())) != nil {
		return
	}
	var out bytes.Buffer
	_, err := b.Write(&out, Document{Format: format})
	require.NoError(t, err)
	_, err = ExactBlocks(bytes.NewReader(out.Bytes()), int64(out.Len()), format, false, a)
	if isRelative([]byte(path)) || path == "./-" {
		if len(out.Bytes()) <= MaxLine {
			require.NoError(t, err, "%q", out.String())
		}
	} else {
		require.ErrorAs(t, err, new(*FormError), "%q", out.String())
	}
}

// The path of a deep tree can be many times longer than PATH_MAX.
func TestOwnLinesOfLongPaths(t *testing.T) {
	for _, name := range []string{strings.Repeat("d", 250), strings.Repeat("\n", 250)} {
		path := strings.Repeat(name+"/", (1<<20)/251) + "file"
		b := newBuilder(hash.SHA256, noSpill, 0)
		require.NoError(t, putIn(b, path, bytes.Repeat([]byte{7}, hash.SHA256.Size())))
		var out bytes.Buffer
		_, err := b.Write(&out, Document{Format: GNU})
		require.NoError(t, err)
		_, err = ExactBlocks(bytes.NewReader(out.Bytes()), int64(out.Len()), GNU, false, hash.SHA256)
		require.NoError(t, err)
		line, err := NewReader(&out, GNU, "").Next()
		require.NoError(t, err)
		require.Equal(t, path, line.Path)
	}
}
