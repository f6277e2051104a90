package manifest

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// requireChecked reads text and compares the paths, with "|" before a Literal
// and the algorithm in brackets, and the numbers of malformed lines.
func requireChecked(t *testing.T, text string, f Format, want []string, malformed ...int) {
	t.Helper()
	for _, src := range []io.Reader{
		strings.NewReader(text),
		iotest.OneByteReader(strings.NewReader(text)),
		iotest.DataErrReader(strings.NewReader(text)),
	} {
		r := NewReader(src, f, "")
		lines, _, err := readAll(r)
		require.NoError(t, err)
		var got []string
		for _, l := range lines {
			s := l.Path
			if l.Literal != "" {
				s += "|" + l.Literal
			}
			if l.Algorithm != "" {
				s += "[" + l.Algorithm + "]"
			}
			got = append(got, s)
		}
		require.Equal(t, want, got, "%q", text)
		count, kept := r.Malformed()
		require.Equal(t, len(malformed), count, "%q", text)
		require.Equal(t, malformed, kept, "%q", text)
	}
}

func TestCheckReaderForms(t *testing.T) {
	md5 := hexA[:32]
	for _, tt := range []struct {
		name      string
		lines     []string
		want      []string
		malformed []int
	}{
		{"two characters", []string{hexA + "  a", hexA + " *b", hexA + "\t c"}, []string{"a", "b", "c"}, nil},
		{"one space", []string{hexA + " a", hexA + " b c", hexA + "\td"}, []string{"a", "b c", "d"}, nil},
		{"two characters first", []string{hexA + "  a", hexA + " b", hexA + "  c"}, []string{"a", "c"}, []int{2}},
		{"asterisk first", []string{hexA + " *a", hexA + " b"}, []string{"a"}, []int{2}},
		{
			"one space first", []string{hexA + " a", hexA + "  b", hexA + " *c", hexA + "   d"},
			[]string{"a", " b", "*c", "  d"},
			nil,
		},
		{"one character", []string{hexA + " *", hexA + "  x"}, []string{"*", " x"}, nil},
		{"one space, nothing else", []string{hexA + "  ", hexA + "  x"}, []string{" ", " x"}, nil},
		{"one character, after two characters", []string{hexA + "  x", hexA + "  ", hexA + " *"}, []string{"x"}, []int{2, 3}},
		{
			"what is no untagged line does not decide",
			[]string{"# " + hexA + " a", "", "text", "SHA256 (t) = " + hexA, hexA + " ", hexA[1:] + " a", hexA[2:32] + " a", hexA + "  b", hexA + " c"},
			[]string{"t[SHA256]", "b"},
			[]int{3, 5, 6, 7, 9},
		},
		{
			"a line of the form decides even if its escapes are wrong",
			[]string{`\` + hexA + ` a\q`, hexA + "  b"},
			[]string{" b"},
			[]int{1},
		},
		{
			"even if its name has a NUL",
			[]string{hexA + " a\x00b", hexA + "  b", hexA + " c\x00"},
			[]string{" b"},
			[]int{1, 3},
		},
		{
			"each length for itself",
			[]string{md5 + " a", hexA + "  b", md5 + "  c", hexA + " d", hexA + hexA + hexA + " e", hexA + hexA + hexA[2:] + "  f"},
			[]string{"a", "b", " c", "e", " f"},
			[]int{4},
		},
		{
			"one space, escaped",
			[]string{`\` + hexA + ` a\nb\\c\r`, `\` + hexA + "  d", hexA + ` e\n`},
			[]string{"a\nb\\c\r", " d", `e\n`},
			nil,
		},
		{
			"one space, upper case, leading blanks",
			[]string{strings.ToUpper(hexA) + " a", " \t" + hexA + " b"},
			[]string{"a", "b"},
			nil,
		},
		{
			"tagged among them",
			[]string{hexA + " a", "SHA256 (b) = " + hexA, `\SHA1(c\n)= ` + hexA[:40], hexA + "  (d) = " + hexA},
			[]string{"a", "b[SHA256]", "c\n[SHA1]", " (d) = " + hexA},
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, end := range []string{"\n", "\r\n"} {
				for _, start := range []string{"", bom} {
					text := start + strings.Join(tt.lines, end)
					requireChecked(t, text, GNU, tt.want, tt.malformed...)
					requireChecked(t, text+end, GNU, tt.want, tt.malformed...)
				}
			}
		})
	}
}

// rhash --bsd pads the tags to a column.
func TestCheckReaderPaddedTags(t *testing.T) {
	requireChecked(t, strings.Join([]string{
		"SHA256 (a) = " + hexA,
		"SHA1  (b) = " + hexA[:40],
		`\MD5   (c\n) = ` + hexA[:32],
		" MD5   ( (d) = " + hexA[:32],
		"MD5\t (e) = " + hexA[:32],
		"MD5    " + hexA[:32],
		hexA[:32] + "  (f) = " + hexA[:32],
	}, "\n"), GNU, []string{"a[SHA256]", "b[SHA1]", "c\n[MD5]", " (d[MD5]", "(f) = " + hexA[:32]}, 5, 6)
}

func TestCheckReaderByteOrderMark(t *testing.T) {
	line := hexA + "  a\n"
	requireChecked(t, bom, GNU, nil)
	requireChecked(t, bom+"\n"+line, GNU, []string{"a"})
	requireChecked(t, bom+"# comment\n"+line, GNU, []string{"a"})
	requireChecked(t, bom+`\`+line, GNU, []string{"a"})
	requireChecked(t, bom+bom+line+line, GNU, []string{"a"}, 1)
	requireChecked(t, line+bom+line, GNU, []string{"a"}, 2)
	requireChecked(t, bom[:2]+line, GNU, nil, 1)
	requireChecked(t, hexA+"  "+bom+"\n", GNU, []string{bom})
	requireChecked(t, bom+line, BagIt, []string{"a"})
}

// As in sha256sum, the lines of the armour are malformed, and the others count.
func TestCheckReaderClearSigned(t *testing.T) {
	requireChecked(t, strings.Join([]string{
		"-----BEGIN PGP SIGNED MESSAGE-----",
		"Hash: SHA256",
		"",
		"# Some-Release-1.iso: 12345 bytes",
		"SHA256 (Some-Release-1.iso) = " + hexA,
		"-----BEGIN PGP SIGNATURE-----",
		"",
		"iQIzBAEBCAAdFiEEgCm6I1zQ5m1XvDGQ0lXJxY6kmGkFAmcO",
		"=abcd",
		"-----END PGP SIGNATURE-----",
		"",
	}, "\n"), GNU, []string{"Some-Release-1.iso[SHA256]"}, 1, 2, 6, 8, 9, 10)
}

func TestCheckReaderBagIt(t *testing.T) {
	md5 := hexA[:32]
	for _, tt := range []struct{ line, want string }{
		{md5 + " data/a", "data/a"},
		{md5 + "  data/a", "data/a"},
		{md5 + "\tdata/a", "data/a"},
		{md5 + " \t \tdata/a b ", "data/a b "},
		{strings.ToUpper(hexA) + "  data/a", "data/a"},
		{" " + md5 + " data/a", "data/a"},
		{md5 + " *data/a", "data/a"},
		{md5 + "  *data/100%25", "data/100%|data/100%25"},
		{md5 + " *bagit.txt", "bagit.txt"},
		{md5 + " data/*data/a", "data/*data/a"},
		{md5 + " **data/a", "*data/a"},
		{md5 + ` data/a\nb`, `data/a\nb`},
		{md5 + ` data\a`, `data\a`},
		{md5 + " data/a%0Ab%0ac", "data/a\nb\nc|data/a%0Ab%0ac"},
		{md5 + " data/a%0D%0d%0A", "data/a\r\r\n|data/a%0D%0d%0A"},
		{md5 + " data/%2525%250A", "data/%25%0A|data/%2525%250A"},
		{md5 + " data/%20%00%0a%2f%2", "data/%20%00\n%2f%2|data/%20%00%0a%2f%2"},
		{md5 + " data/%", "data/%"},
		{md5 + " data/%0", "data/%0"},
		{md5 + " data/%0\x01%2\x15%0\x04", "data/%0\x01%2\x15%0\x04"},
		{md5 + " %0A", "\n|%0A"},
		{md5 + " data/" + bom, "data/" + bom},
		{md5 + " (data/a) = " + md5, "(data/a) = " + md5},
	} {
		for _, end := range []string{"", "\n", "\r\n", "\r", "\n\n", "\r\r", "\n\r", "\r\n\r\n"} {
			requireChecked(t, tt.line+end, BagIt, []string{tt.want})
		}
	}
	for _, line := range []string{
		md5, md5 + " ", md5 + "  \t", "data/a", md5[1:] + " data/a", md5[2:] + " data/a", md5 + "data/a", md5 + "*data/a",
		`\` + md5 + "  data/a", "MD5 (data/a) = " + md5, md5 + " data/\x00", "g" + md5 + " data/a",
	} {
		requireChecked(t, line+"\n"+md5+" b\n", BagIt, []string{"b"}, 1)
	}
}

func TestCheckReaderBagItLineEnds(t *testing.T) {
	line := func(name string) string { return hexA + " " + name }
	requireChecked(t, line("a")+"\r"+line("b")+"\r\n"+line("c")+"\n"+line("d"), BagIt, []string{"a", "b", "c", "d"})

	r := NewReader(strings.NewReader(line("a")+"\r\n\r\n"+line("b")+"\r\r"+line("c")+"\n\r"+line("d")+"\r"), BagIt, "")
	_, numbers, err := readAll(r)
	require.NoError(t, err)
	require.Equal(t, []int{1, 3, 5, 7}, numbers)

	// In the other format, a carriage return is a part of the name.
	requireChecked(t, hexA+"  a\r"+hexA+"  b\r\n", GNU, []string{"a\r" + hexA + "  b"})
}

// A digest that is decoded into the same buffer as the one before must not change the
// returned strings.
func TestCheckReaderStringsLast(t *testing.T) {
	text := strings.Repeat(hexA+" data/a%0Ab\n"+hexB+" data/c%25d\n", 3)
	lines, _, err := readAll(NewReader(strings.NewReader(text), BagIt, ""))
	require.NoError(t, err)
	require.Len(t, lines, 6)
	for i, l := range lines {
		want := Line{Path: "data/a\nb", Digest: digestOf(t, hexA), Literal: "data/a%0Ab"}
		if i%2 == 1 {
			want = Line{Path: "data/c%d", Digest: digestOf(t, hexB), Literal: "data/c%25d"}
		}
		require.Equal(t, want, l)
	}
}

func TestCheckReaderOverlongLines(t *testing.T) {
	for _, f := range []Format{GNU, BagIt} {
		longest := strings.Repeat("n", MaxLine-1-len(hexA)-2)
		for _, start := range []string{"", "x\n"} {
			r := NewReader(strings.NewReader(start+hexA+"  "+longest+"n\n"+hexB+"  "+longest+"\n"+hexA+"  "+longest+longest), f, "")
			lines, numbers, err := readAll(r)
			require.NoError(t, err)
			require.Equal(t, []int{2 + len(start)/2}, numbers)
			require.Equal(t, longest, lines[0].Path)
			count, _ := r.Malformed()
			require.Equal(t, 2+len(start)/2, count)
		}
	}
	// An overlong line does not decide the form of the file.
	requireChecked(t, hexA+" "+strings.Repeat("n", MaxLine)+"\n"+hexA+"  a\n", GNU, []string{"a"}, 1)
}

func TestCheckReaderMemory(t *testing.T) {
	for _, f := range []Format{GNU, BagIt} {
		for name, text := range map[string]string{
			"no line feed": strings.Repeat("\x00", 1<<16),
			"long lines":   hexA + " " + strings.Repeat("%0A", 30<<10) + "\n",
			"short lines":  hexA + " *data/a%25\n",
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := NewReader(io.MultiReader(strings.NewReader(text), &endless{32 << 20}), f, "")
			_, _, err := readAll(r)
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			allocated := after.TotalAlloc - before.TotalAlloc
			require.Less(t, allocated, uint64(6*MaxLine), "%d, %s", f, name)
		}
	}
	text := strings.Repeat(hexA+" data/a\n"+strings.ToUpper(hexB)+" *data/b\r\n", 2000)
	for _, f := range []Format{GNU, BagIt} {
		r := NewReader(strings.NewReader(text), f, "")
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}), 1.0, "one for the path")
	}
}

// Digests of each length have a separate form.
func TestFormsOfAllLengths(t *testing.T) {
	for _, a := range hash.All() {
		require.LessOrEqual(t, a.Size(), maxKnownDigest, a)
	}
}

func TestLineFeeder(t *testing.T) {
	text := "a\r\nb\rc\nd\r\r\ne\n\rf\r"
	want := "a\r\nb\nc\nd\n\r\ne\n\nf\n"
	for _, src := range []io.Reader{
		strings.NewReader(text),
		iotest.OneByteReader(strings.NewReader(text)),
		iotest.HalfReader(strings.NewReader(text)),
		iotest.DataErrReader(iotest.OneByteReader(strings.NewReader(text))),
	} {
		got, err := io.ReadAll(newLineFeeder(src))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	require.NoError(t, iotest.TestReader(newLineFeeder(strings.NewReader(text)), []byte(want)))
	_, err := io.Copy(&bytes.Buffer{}, newLineFeeder(io.MultiReader(strings.NewReader("\r"), iotest.ErrReader(io.ErrClosedPipe))))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}
