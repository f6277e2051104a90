package manifest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func ownIndex(text string, s Style) (*Index, error) {
	return BuildOwnIndex(strings.NewReader(text), int64(len(text)), 32, s)
}

func TestOwnIndexAcceptsWhatBuilderWrites(t *testing.T) {
	paths := []string{"-", "B", "a", "a b", "a/b", "a\nb", `a\`, "a\r", ".a/..b", " ", "*", "\xff", strings.Repeat("d/", 4000) + "f"}
	for _, style := range []Style{{}, {Tag: "SHA256"}, {Tag: "SHA2-512/256"}} {
		b := NewBuilder(32, noSpill, 0)
		b.Style = style
		for _, path := range paths {
			require.NoError(t, b.Put(path, digestOf(t, hexA)))
		}
		ix, err := ownIndex(written(t, b, Carry{}), style)
		require.NoError(t, err)
		require.Equal(t, len(paths), ix.Len())
		for _, path := range paths {
			requireListed(t, ix, path, hexA)
		}
		require.NoError(t, b.Close())
	}
	ix, err := ownIndex("", Style{})
	require.NoError(t, err)
	require.Zero(t, ix.Len())

	// Earlier versions wrote an asterisk before some names.
	ix, err = ownIndex(hexA+" *a\n"+hexB+"  b\n\\"+hexA+` *c\n`+"\n", Style{})
	require.NoError(t, err)
	requireListed(t, ix, "a", hexA)
	requireListed(t, ix, "b", hexB)
	requireListed(t, ix, "c\n", hexA)
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
		"SHA256 (a) = " + hexA + "\n":       {1, kind},
		hexA + "\n":                         {1, kind},
		a + "\x00":                          {2, kind},
		hexA + "  " + strings.Repeat("n", 140_000) + "\n": {1, kind},
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
		_, err := ownIndex(text, Style{})
		form, ok := errors.AsType[*FormError](err)
		require.True(t, ok, "%.100q: %v", text, err)
		require.Equal(t, want, *form, "%.100q", text)
	}
	for _, text := range []string{
		a, "BLAKE3 (a) = " + hexA + "\n", "SHA256(a)= " + hexA + "\n", "SHA256  (a) = " + hexA + "\n", "SHA2-256 (a) = " + hexA + "\n",
	} {
		_, err := ownIndex(text, Style{Tag: "SHA256"})
		require.ErrorAs(t, err, new(*FormError), text)
	}
}

func TestOwnIndexErrors(t *testing.T) {
	text := hexA + "  a\n"
	_, err := BuildOwnIndex(&flaky{err: io.ErrClosedPipe}, 10, 32, Style{})
	require.ErrorIs(t, err, io.ErrClosedPipe)
	_, err = BuildOwnIndex(strings.NewReader(text), int64(len(text))+1, 32, Style{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = OwnBlocks(&flaky{err: io.ErrClosedPipe}, 10, NewBuilder(32, nil, 0))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	_, err = OwnBlocks(strings.NewReader(text), int64(len(text))+1, NewBuilder(32, nil, 0))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// twoHashes are the builders of a file with lines of two hashes.
func twoHashes() []*Builder {
	sha, md5 := NewBuilder(32, nil, 0), NewBuilder(16, nil, 0)
	sha.Style.Tag, md5.Style.Tag = "SHA256", "MD5"
	return []*Builder{sha, md5}
}

func TestOwnBlocks(t *testing.T) {
	plain, named := NewBuilder(32, nil, 0), NewBuilder(32, nil, 0)
	named.Named = true
	sha := func(path string) string { return "SHA256 (" + path + ") = " + hexA + "\n" }
	md5 := func(path string) string { return "MD5 (" + path + ") = " + hexB[:32] + "\n" }
	for name, tt := range map[string]struct {
		builders []*Builder
		blocks   []string // what the file consists of
		want     string   // of the error
	}{
		"empty":                {[]*Builder{plain}, nil, ""},
		"empty, two hashes":    {twoHashes(), nil, ""},
		"one hash":             {[]*Builder{plain}, []string{listing("a A", "b B")}, ""},
		"one hash, marked":     {[]*Builder{plain}, []string{hexA + " *a\n"}, ""},
		"as users name files":  {[]*Builder{named}, []string{listing("- A", "../b A", "./- A", "./a A", "/c A", "a A", "a//b A")}, ""},
		"standard input":       {[]*Builder{plain}, []string{listing("- A")}, "line 1 is not written as Sealift writes it"},
		"not in order":         {[]*Builder{named}, []string{listing("a A", "./a A")}, "line 2 is not in ascending order"},
		"two hashes":           {twoHashes(), []string{sha("a") + sha("b"), md5("a") + md5("b")}, ""},
		"other paths":          {twoHashes(), []string{sha("b"), md5("a")}, ""},
		"only the first":       {twoHashes(), []string{sha("a") + sha("b")}, "line 2 is the last one, and there is none of MD5"},
		"only the second":      {twoHashes(), []string{md5("a")}, "line 1 is not a line of this kind of manifest"},
		"in the other order":   {twoHashes(), []string{md5("a"), sha("a")}, "line 1 is not a line of this kind of manifest"},
		"mixed":                {twoHashes(), []string{sha("a"), md5("a"), sha("b")}, "line 3 is not a line of this kind of manifest"},
		"a block not in order": {twoHashes(), []string{sha("a"), md5("b") + md5("a")}, "line 3 is not in ascending order"},
		"a third hash":         {twoHashes(), []string{sha("a"), md5("a"), "SHA1 (a) = " + hexA[:40] + "\n"}, "line 3 is not a line of this kind of manifest"},
		"untagged":             {twoHashes(), []string{sha("a"), hexA[:32] + "  a\n"}, "line 2 is not written as Sealift writes it"},
		"a line cut short":     {twoHashes(), []string{sha("a"), md5("a")[:20]}, "line 2 is not a line of this kind of manifest"},
	} {
		text := strings.Join(tt.blocks, "")
		blocks, err := OwnBlocks(strings.NewReader(text), int64(len(text)), tt.builders...)
		if tt.want != "" {
			require.ErrorAs(t, err, new(*FormError), name)
			require.EqualError(t, err, tt.want, name)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, blocks, len(tt.builders), name)
		for i, want := range tt.blocks {
			got, err := io.ReadAll(blocks[i])
			require.NoError(t, err)
			require.Equal(t, want, string(got), name)
		}
	}
}

// FuzzOwn checks that a file which is accepted as one that Builder has written is
// byte for byte what Builder writes, the asterisks of earlier versions aside.
func FuzzOwn(f *testing.F) {
	f.Add([]byte(listing("./- A", "a A", "b B")), "p")
	f.Add([]byte(hexA+" *a\n\\"+hexB+`  b\\c\n\r`+"\n"), "q\nr")
	f.Add([]byte("SHA256 (a) = "+hexA+"\nSHA256 (b)) = "+hexB+"\n"), "./-")
	f.Add([]byte("SHA256 (a) = "+hexA+"\nMD5 (a) = "+hexB[:32]+"\n"), "-")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		for _, style := range []Style{{}, {Tag: "SHA256"}} {
			if _, err := BuildOwnIndex(bytes.NewReader(text), int64(len(text)), 32, style); err == nil {
				require.True(t, requireRebuilt(t, text, func() *Builder { return styled(32, style, false) }))
			}
			requireOwn(t, style, path)
		}
		for _, builders := range [][]func() *Builder{
			{func() *Builder { return styled(32, Style{}, true) }},
			{func() *Builder { return styled(32, Style{Tag: "SHA256"}, true) }, func() *Builder { return styled(16, Style{Tag: "MD5"}, true) }},
		} {
			requireRebuilt(t, text, builders...)
		}
	})
}

func styled(digestSize int, s Style, named bool) *Builder {
	b := NewBuilder(digestSize, noSpill, 0)
	b.Style, b.Named = s, named
	return b
}

// requireRebuilt checks that builders write the text again from what a Reader finds
// in it, and also if they take over all of it, if OwnBlocks accepts it.
func requireRebuilt(t *testing.T, text []byte, builders ...func() *Builder) (accepted bool) {
	t.Helper()
	var fresh []*Builder
	for _, b := range builders {
		fresh = append(fresh, b())
	}
	blocks, err := OwnBlocks(bytes.NewReader(text), int64(len(text)), fresh...)
	if err != nil || len(text) == 0 {
		return err == nil
	}
	var rebuilt, carried bytes.Buffer
	var without []byte // the asterisks
	for i, b := range fresh {
		lines, _, err := readAll(NewReader(blocks[i]))
		require.NoError(t, err)
		for _, l := range lines {
			require.NoError(t, b.Put(l.Path, l.Digest))
			without = b.Style.AppendLine(without, l.Digest, l.Path)
		}
		n, err := b.Write(&rebuilt, Carry{})
		require.NoError(t, err)
		require.Equal(t, Counts{Lines: len(lines)}, n)

		_, err = blocks[i].Seek(0, io.SeekStart)
		require.NoError(t, err)
		n, err = builders[i]().Write(&carried, Carry{Previous: blocks[i]})
		require.NoError(t, err)
		require.Equal(t, Counts{Lines: len(lines)}, n)
	}
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
func requireOwn(t *testing.T, style Style, path string) {
	t.Helper()
	b := styled(32, style, false)
	if b.Put(path, bytes.Repeat([]byte{7}, 32)) != nil {
		return
	}
	var out bytes.Buffer
	_, err := b.Write(&out, Carry{})
	require.NoError(t, err)
	_, err = ownIndex(out.String(), style)
	if isRelative([]byte(path)) || path == "./-" {
		if len(out.Bytes()) <= MaxLine {
			require.NoError(t, err, "%q", out.String())
		}
	} else {
		require.ErrorAs(t, err, new(*FormError), "%q", out.String())
	}
}
