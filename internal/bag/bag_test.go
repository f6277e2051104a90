package bag

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadDeclaration(t *testing.T) {
	for content, want := range map[string]string{
		Declaration:                                                 "",
		strings.TrimSuffix(Declaration, "\n"):                       "",
		strings.ReplaceAll(Declaration, "\n", "\r\n"):               "",
		strings.ReplaceAll(Declaration, "\n", "\r"):                 "",
		"BagIt-Version: 0.97\nTag-File-Character-Encoding: utf-8\n": "",
		"":                     "has 1",
		Declaration + "X: y\n": "has 3",
		"BagIt-Version : 0.93 \t\nTag-File-Character-Encoding : ISO-8859-1 \n \n\n": "",
		"BagIt-Version: 1.0 \nTag-File-Character-Encoding:\tUTF-16\t\n":             "",
		"BagIt-Version : 1.0\n" + Declaration[19:]:                                  "a label ends with white space",
		Declaration[:19] + "Tag-File-Character-Encoding : UTF-8\n":                  "a label ends with white space",
		"BagIt-Version: 1\n" + Declaration[19:]:                                     "line 1 is not",
		"BagIt-Version: .97\n" + Declaration[19:]:                                   "line 1 is not",
		"Version: 1.0\n" + Declaration[19:]:                                         "line 1 is not",
		Declaration[:19] + "Encoding: UTF-8\n":                                      "line 2 is not",
		"\xef\xbb\xbf" + Declaration:                                                "byte order mark",
		"\xff\xfeB\x00a\x00":                                                        "UTF-16",
		Declaration + strings.Repeat("\n", 5000):                                    "longer than",
	} {
		_, err := ReadDeclaration(strings.NewReader(content))
		if want == "" {
			require.NoError(t, err, "%q", content)
		} else {
			require.ErrorContains(t, err, want, "%q", content)
		}
	}
}

// A bag that Sealift cannot read is not an invalid one.
func TestUnsupportedDeclarations(t *testing.T) {
	for content, want := range map[string]string{
		"BagIt-Version: 0.92\n" + Declaration[19:]:                    "BagIt 0.92 is not supported",
		"BagIt-Version: 0.98\n" + Declaration[19:]:                    "BagIt 0.98 is not supported",
		"BagIt-Version: 1.1\n" + Declaration[19:]:                     "BagIt 1.1 is not supported",
		"BagIt-Version: 2.0\n" + Declaration[19:]:                     "BagIt 2.0 is not supported",
		Declaration[:19] + "Tag-File-Character-Encoding: Shift_JIS\n": `in "Shift_JIS", which is not supported`,
	} {
		_, err := ReadDeclaration(strings.NewReader(content))
		var unsupported *UnsupportedError
		require.ErrorAs(t, err, &unsupported, "%q", content)
		require.ErrorContains(t, err, want)
	}
}

func TestEncodings(t *testing.T) {
	for _, test := range []struct{ name, content, want, err string }{
		{"us-ascii", "a", "a", ""},
		{"utf8", "\xff", "\xff", ""}, // the reader of the text refuses it
		{"ISO-8859-1", "J\xf6rg\xff\r\n", "Jörgÿ\r\n", ""},
		{"iso_8859-1", "", "", ""},
		{"UTF-16", "\xfe\xff\x00a\x20\xac\x4e\x0a", "a€上", ""},
		{"UTF-16", "\xff\xfea\x00\x3d\xd8\x00\xde\xff\xfe", "a😀\ufeff", ""},
		{"UTF-16LE", "a\x00\n\x00", "a\n", ""},
		{"UTF-16BE", "\x00a\x00\n", "a\n", ""},
		{"UTF-16", "", "", ""},
		{"UTF-16", "a", "", "it has one byte"},
		{"UTF-16", "ab", "", "has no byte order mark"},
		{"UTF-16", "\x00a\x00", "a", "it ends within a character, at byte 2"},
		{"UTF-16", "\x00a\xd8\x3d", "a", "half of a pair is alone at byte 2"},
		{"UTF-16", "\x00a\xde\x00\x00b", "a", "half of a pair is alone at byte 2"},
	} {
		e, ok := encodingOf(test.name)
		require.True(t, ok, test.name)
		for _, src := range []io.Reader{strings.NewReader(test.content), &oneByte{[]byte(test.content)}} {
			got, err := io.ReadAll(e.NewReader(src))
			if test.err == "" {
				require.NoError(t, err, "%q", test.content)
			} else {
				require.ErrorContains(t, err, test.err, "%q", test.content)
			}
			require.Equal(t, test.want, string(got))
		}
		text, size, err := e.Decode(strings.NewReader(test.content), int64(len(test.content)))
		switch {
		case test.err != "":
			require.ErrorContains(t, err, test.err)
		case e == UTF8:
			require.Nil(t, text)
		default:
			got, err := io.ReadAll(io.NewSectionReader(text, 0, size+1))
			require.NoError(t, err)
			require.Equal(t, test.want, string(got))
			require.Len(t, test.want, int(size))
			require.NoError(t, text.Close())
		}
	}
}

func TestReadInfo(t *testing.T) {
	i, err := ReadInfo(strings.NewReader("\xef\xbb\xbfContact-Name: A\r\n  and B\r\n\r\npayload-oxum : \r\n\t 12.3 \r\nBag-Software-Agent: x\r"))
	require.NoError(t, err)
	require.Equal(t, Info{Oxum: &Oxum{12, 3}, Agent: "x"}, i)
	for content, want := range map[string]string{
		" x\n":                                   "line 1 continues nothing",
		"x\n":                                    "line 1 is not a label, a colon and a value",
		": x\n":                                  "line 1 is not a label",
		"a: b\n\xff: x\n":                        "line 2 is not UTF-8",
		"a: \x00\n":                              "line 1 has a NUL",
		"Payload-Oxum: 1\n":                      "is not two numbers",
		"Payload-Oxum: 1.\n":                     "is not two numbers",
		"Payload-Oxum: -1.1":                     "is not two numbers",
		"Payload-Oxum: 1.1\nPayload-Oxum: 1.2\n": "twice, with different values",
		"a: " + strings.Repeat("x", maxLine):     "line 1 is longer than",
		"a: b\nb: " + strings.Repeat("x", 2*maxLine):                "line 2 is longer than",
		strings.Repeat("a: "+strings.Repeat("b", 1000)+"\n", 17000): "longer than 16 MiB",
	} {
		_, err := ReadInfo(strings.NewReader(content))
		require.ErrorContains(t, err, want, "%.40q", content)
	}
}

func TestReadFetch(t *testing.T) {
	var paths []string
	keep := func(path string) error { paths = append(paths, path); return nil }
	require.NoError(t, ReadFetch(strings.NewReader("http://x 1 data/a b\n\nhttp://y\t-\t data/%0Ac\r\n"), keep))
	require.Equal(t, []string{"data/a b", "data/%0Ac"}, paths)
	for _, line := range []string{"x", "x 1", "x 1 ", "x -1 data/a", "x 1e3 data/a", "x 99999999999999999999 data/a"} {
		require.ErrorContains(t, ReadFetch(strings.NewReader("http://x 1 data/a\n"+line), keep), "line 2 is not a URL, a length and a path", line)
	}
	stop := errors.New("stop")
	require.ErrorIs(t, ReadFetch(strings.NewReader("http://x 1 data/a\n"), func(string) error { return stop }), stop)
}

func TestParseField(t *testing.T) {
	f, err := ParseField("Contact-Name = Ann = B: C ")
	require.NoError(t, err)
	require.Equal(t, Field{"Contact-Name", "Ann = B: C"}, f)
	for text, want := range map[string]string{
		"x": "want LABEL=VALUE", "=x": "want LABEL=VALUE", "a:b=c": "colon", "a=b\nc": "line break", "a\r=b": "line break",
		"a=\xff": "UTF-8", "payload-oxum=1.1": "is written by Sealift", "a=" + strings.Repeat("x", maxField): "longer than",
	} {
		_, err := ParseField(text)
		require.ErrorContains(t, err, want, "%.40q", text)
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 12_345: "12.3 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 42_600_000_000: "42.6 GB", 1<<63 - 1: "9.2 EB",
	} {
		require.Equal(t, want, Size(bytes))
	}
}

func TestNamesOfManifests(t *testing.T) {
	for name, want := range map[string][2]bool{
		"manifest-md5.txt": {true, false}, "Manifest-SHA3512.TXT": {true, false}, "tagmanifest-md5.txt": {false, true}, "TagManifest-x.txt": {false, true},
		"manifest-.txt": {}, "manifest.txt": {}, "tagmanifest-.txt": {}, "xmanifest-md5.txt": {}, "manifest-md5.txt~": {}, "tag": {},
	} {
		require.Equal(t, want, [2]bool{IsPayloadManifest(name), IsTagManifest(name)}, name)
	}
}

// Reading a written bag-info.txt returns the same fields.
func FuzzInfo(f *testing.F) {
	f.Add("Contact-Name", "Ann", int64(12), int64(3))
	f.Add("a", "", int64(0), int64(1<<62))
	f.Add("Payload-Oxum", "1.1", int64(0), int64(0))
	f.Fuzz(func(t *testing.T, label, value string, size, files int64) {
		field, err := ParseField(label + "=" + value)
		if err != nil || size < 0 || files < 0 {
			return
		}
		o := Oxum{size, files}
		text := AppendInfo(nil, []Field{field, {LabelAgent, "x"}, {LabelOxum, o.String()}})
		i, err := ReadInfo(bytes.NewReader(text))
		require.NoError(t, err, "%q", text)
		require.Equal(t, Info{&o, "x"}, i, "%q", text)
	})
}

// No tag file makes a reader fail except with an error, and the result does not depend on
// where a buffer ends.
func FuzzTagFiles(f *testing.F) {
	for _, seed := range []string{Declaration, "a: b\r\n c\rPayload-Oxum: 1.1", "http://x 1 data/a\n", "\xef\xbb\xbf", "\r\r\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		_, _ = ReadDeclaration(bytes.NewReader(content))
		info, infoErr := ReadInfo(bytes.NewReader(content))
		paths := 0
		fetchErr := ReadFetch(bytes.NewReader(content), func(string) error { paths++; return nil })
		if i, err := ReadInfo(&oneByte{content}); (err == nil) != (infoErr == nil) || err == nil && i.Agent != info.Agent {
			t.Fatalf("bag-info.txt in single bytes: %v, %v; %v, %v", i, err, info, infoErr)
		}
		count := 0
		if err := ReadFetch(&oneByte{content}, func(string) error { count++; return nil }); (err == nil) != (fetchErr == nil) || count != paths {
			t.Fatalf("fetch.txt in single bytes: %d, %v; %d, %v", count, err, paths, fetchErr)
		}
	})
}

// oneByte reads one byte at a time.
type oneByte struct{ left []byte }

func (o *oneByte) Read(p []byte) (int, error) {
	if len(o.left) == 0 {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	p[0], o.left = o.left[0], o.left[1:]
	return 1, nil
}
