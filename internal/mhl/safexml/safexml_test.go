package safexml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// tokens writes the tokens of a document: "<a b=c>", "</a>" and texts, and the error.
func tokens(r *Reader) (list []string, err error) {
	for {
		token, err := r.Token()
		if err != nil {
			return list, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			text := "<" + t.Name.Local
			for _, a := range t.Attr {
				text += " " + a.Name.Local + "=" + a.Value
			}
			list = append(list, text+">")
		case xml.EndElement:
			list = append(list, "</"+t.Name.Local+">")
		case xml.CharData:
			list = append(list, string(t))
		default:
			return list, fmt.Errorf("unexpected %T", token)
		}
	}
}

func TestTokens(t *testing.T) {
	for document, want := range map[string][]string{
		`<a/>`: {"<a>", "</a>"},
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- c --><a b='1&amp;2'>x&#10;<![CDATA[<y>]]><?p q?><b>z</b></a>\n<!-- d -->\n": {
			"<a b=1&2>", "x\n", "<y>", "<b>", "z", "</b>", "</a>",
		},
		"\xef\xbb\xbf<?xml version='1.0' encoding='utf-8'?><ä>ö</ä>": {"<ä>", "ö", "</ä>"},
		`<a xmlns="urn:x" xmlns:y="urn:y"><y:b/></a>`:                {"<a xmlns=urn:x y=urn:y>", "<b>", "</b>", "</a>"},
	} {
		for _, in := range []io.Reader{strings.NewReader(document), iotest.OneByteReader(strings.NewReader(document))} {
			got, err := tokens(NewReader(in))
			require.ErrorIs(t, err, io.EOF, document)
			require.Equal(t, want, got, document)
		}
	}
}

func TestRefused(t *testing.T) {
	long := strings.Repeat("x", maxToken+1)
	for name, tt := range map[string]struct{ document, want string }{
		"nothing":                 {"", "line 1: the document has no element"},
		"comments only":           {"<!-- a -->\n", "line 2: the document has no element"},
		"no XML":                  {"d41d8cd98f00b204e9800998ecf8427e  a\n", "line 2: text outside of the outermost element"},
		"truncated":               {"<a>\n<b>x</b>\n", "line 3: unexpected EOF"},
		"truncated tag":           {"<a>\n<b x='", "line 2: unexpected EOF"},
		"wrong end":               {"<a>\n</b>", "line 2: element <a> closed by </b>"},
		"two roots":               {"<a/>\n<b/>", "line 2: a second outermost element, <b>"},
		"text behind":             {"<a/>\nx", "line 2: text outside of the outermost element"},
		"billion laughs":          {"<?xml version='1.0'?>\n<!DOCTYPE lolz [<!ENTITY lol 'lol'><!ENTITY lol2 '&lol;&lol;'>]>\n<lolz>&lol2;</lolz>", "line 2: a document type (<!DOCTYPE lo) is not accepted"},
		"external entity":         {"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>", "line 1: a document type (<!DOCTYPE a ) is not accepted"},
		"directive inside":        {"<a>\n<!ENTITY x 'y'></a>", "line 2: a document type (<!ENTITY x ') is not accepted"},
		"entity":                  {"<a>&lol;</a>", "line 1: invalid character entity &lol;"},
		"character of no name":    {"<a>&#0;</a>", "line 1: illegal character code U+0000"},
		"NUL":                     {"<a>\x00</a>", "line 1: illegal character code U+0000"},
		"invalid UTF-8":           {"<a>\n\xff</a>", "line 2: invalid UTF-8"},
		"Latin 1":                 {"<?xml version='1.0' encoding='iso-8859-1'?>\n<a/>", `line 1: the encoding is "iso-8859-1"; only UTF-8 is read`},
		"UTF-16 by name":          {"<?xml version='1.0' encoding='UTF-16'?>\n<a/>", `line 1: the encoding is "UTF-16"; only UTF-8 is read`},
		"UTF-16, little":          {"\xff\xfe<\x00a\x00/\x00>\x00", "line 1: the encoding is UTF-16 or UTF-32; only UTF-8 is read"},
		"UTF-16, big":             {"\xfe\xff\x00<\x00a\x00/\x00>", "line 1: the encoding is UTF-16 or UTF-32; only UTF-8 is read"},
		"UTF-16 without a mark":   {"<\x00a\x00/\x00>\x00", "line 1: the encoding is UTF-16 or UTF-32; only UTF-8 is read"},
		"version":                 {"<?xml version='1.1'?><a/>", `line 1: unsupported version "1.1"; only version 1.0 is supported`},
		"declaration behind":      {"<a/>\n<?xml version='1.0'?>", "line 2: an XML declaration that is not at the beginning"},
		"deep":                    {strings.Repeat("<a>\n", 33), "line 33: elements are nested more than 32 deep"},
		"many attributes":         {"<a " + attributes(65) + "/>", "line 1: the element <a> has more than 64 attributes"},
		"repeated attribute":      {"<a b='1' b='2'/>", "line 1: the element <a> has the attribute b twice"},
		"long text":               {"<a>\n" + long + "</a>", "line 2: a tag, text or comment has more than 524288 bytes"},
		"long attribute":          {"<a b='" + long + "'/>", "line 1: a tag, text or comment has more than 524288 bytes"},
		"long name":               {"<" + long + "/>", "line 1: a tag, text or comment has more than 524288 bytes"},
		"long comment":            {"<!--" + long + "--><a/>", "line 1: a tag, text or comment has more than 524288 bytes"},
		"long document type":      {"<!DOCTYPE a [" + long + "]><a/>", "line 1: a tag, text or comment has more than 524288 bytes"},
		"long white space in tag": {"<a" + strings.Repeat(" ", len(long)) + "/>", "line 1: a tag, text or comment has more than 524288 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tokens(NewReader(strings.NewReader(tt.document)))
			require.EqualError(t, err, tt.want)
			require.ErrorAs(t, err, new(*Error))
		})
	}
}

// attributes writes n attributes of an element.
func attributes(n int) string {
	text := ""
	for i := range n {
		text += fmt.Sprintf("a%d='' ", i)
	}
	return text
}

// TestLimits checks that documents of exactly the largest sizes are accepted.
func TestLimits(t *testing.T) {
	for _, document := range []string{
		strings.Repeat("<a>", maxDepth) + strings.Repeat("</a>", maxDepth),
		"<a " + attributes(maxAttributes) + "/>",
		"<a>" + strings.Repeat("x", maxToken) + "</a>",
	} {
		_, err := tokens(NewReader(strings.NewReader(document)))
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestText(t *testing.T) {
	text := func(document string) (string, error) {
		r := NewReader(strings.NewReader(document))
		_, err := r.Token()
		require.NoError(t, err)
		return r.Text()
	}
	got, err := text("<a> x<!-- y --><![CDATA[&]]>&lt;\n</a>")
	require.NoError(t, err)
	require.Equal(t, " x&<\n", got)
	got, err = text("<a/>")
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = text("<a>x\n<b/></a>")
	require.EqualError(t, err, "line 2: the element <b> is where a text is expected")
	_, err = text("<a>" + strings.Repeat("<![CDATA["+strings.Repeat("x", maxToken/2)+"]]>", 3) + "</a>")
	require.EqualError(t, err, "line 1: a text has more than 524288 bytes", "pieces are counted together")
}

func TestSkipLineOffset(t *testing.T) {
	document := "\xef\xbb\xbf<a>\n<b><b>x</b>\n</b><c/></a>"
	r := NewReader(strings.NewReader(document))
	for range 3 { // <a>, the line feed, <b>
		_, err := r.Token()
		require.NoError(t, err)
	}
	require.Equal(t, 2, r.Line())
	require.Equal(t, "<b>x</b>", document[r.Offset():][:8])
	require.NoError(t, r.Skip())
	require.Equal(t, 3, r.Line())
	require.Equal(t, "<c/></a>", document[r.Offset():])
	again, err := tokens(NewReader(strings.NewReader(document[r.Offset():])))
	require.Equal(t, []string{"<c>", "</c>", "</a>"}[:2], again[:2], "an element can be read by its offset")
	require.Error(t, err)
	require.EqualError(t, r.Fail("this is wrong"), "line 3: this is wrong")
	_, err = r.Token()
	require.EqualError(t, err, "line 3: this is wrong", "errors are final")
}

func TestErrorOfReading(t *testing.T) {
	broken := errors.New("the disk is gone")
	for cut := range len("<a b='c'>x</a>") {
		in := io.MultiReader(strings.NewReader("<a b='c'>x</a>"[:cut]), iotest.ErrReader(broken))
		_, err := tokens(NewReader(in))
		require.ErrorIs(t, err, broken)
		require.NotErrorAs(t, err, new(*Error))
	}
}

// A hostile document costs no more memory than its limits say.
func TestMemory(t *testing.T) {
	for name, in := range map[string]io.Reader{
		"an endless tag":       endless("<a ", "b='0123456789abcdef' "),
		"an endless attribute": endless("<a b='", "0123456789abcdef"),
		"an endless text":      endless("<a>", "0123456789abcdef"),
		"an endless comment":   endless("<!--", "0123456789abcdef"),
		"endless elements":     endless("", "<a>"),
		"endless types":        endless("<!DOCTYPE a [", "<!ENTITY a 'a'>"),
		"endless pieces":       endless("<a>", "<![CDATA[0123456789abcdef]]>"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := NewReader(io.LimitReader(in, 8<<20))
		for {
			if _, err := r.Token(); err != nil {
				require.ErrorAs(t, err, new(*Error), name)
				break
			}
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), name)
	}
}

// endless returns a start and then the same text for ever.
func endless(start, text string) io.Reader { return &loop{rest: start, text: text} }

type loop struct{ rest, text string }

func (l *loop) Read(p []byte) (int, error) {
	if l.rest == "" {
		l.rest = strings.Repeat(l.text, 100)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
