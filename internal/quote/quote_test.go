package quote

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var names = []struct{ name, want, text string }{
	{"", `''`, ""},
	{"a", `'a'`, "a"},
	{"with space", `'with space'`, "with space"},
	{`a\b"c$d` + "`e!f*", `'a\b"c$d` + "`e!f*'", `a\b"c$d` + "`e!f*"},
	{"é日本語😀", `'é日本語😀'`, "é日本語😀"},
	{"e\u0301", "'e\u0301'", "e\u0301"},
	{"\ufffd", "'\ufffd'", "\ufffd"}, // the real character, not a fault
	{"it's", `$'it\'s'`, "it's"},
	{`'\`, `$'\'\\'`, `'\`},
	{"it's!", `$'it\'s\x21'`, "it's!"},
	{"a\nb\x1b\xff", `$'a\nb\x1b\377'`, `a\x0ab\x1b\xff`},
	{"\a\b\t\n\v\f\r", `$'\a\b\t\n\v\f\r'`, `\x07\x08\x09\x0a\x0b\x0c\x0d`},
	{"\x011", `$'\x011'`, `\x011`},
	{"\x7f", `$'\x7f'`, `\x7f`},
	{"\u009b31m", `$'\302\23331m'`, `\u009b31m`},
	{"\x9b31m", `$'\23331m'`, `\x9b31m`},
	{"\u202egpj.exe", `$'\342\200\256gpj.exe'`, `\u202egpj.exe`},
	{"\u2066a\u2069", `$'\342\201\246a\342\201\251'`, `\u2066a\u2069`},
	{"\u200e\u061c", `$'\342\200\216\330\234'`, `\u200e\u061c`},
	{"a\u200bé", `$'a\342\200\213é'`, `a\u200bé`},
	{"\ufeff", `$'\357\273\277'`, `\ufeff`},
	{"\u2028\u2029", `$'\342\200\250\342\200\251'`, `\u2028\u2029`},
	{"\u00a0", `$'\302\240'`, `\u00a0`},
	{"\u00ad", `$'\302\255'`, `\u00ad`},
	{"\U000e0041", `$'\363\240\201\201'`, `\U000e0041`},
	{"\u3164\u034f\u2800", `$'\343\205\244\315\217\342\240\200'`, `\u3164\u034f\u2800`},
	{"\ufe0f", `$'\357\270\217'`, `\ufe0f`},
	{"\ue000", `$'\356\200\200'`, `\ue000`},
	{"\xed\xa0\x80", `$'\355\240\200'`, `\xed\xa0\x80`}, // a surrogate is not UTF-8
	{"\xc0\xaf", `$'\300\257'`, `\xc0\xaf`},
	{"\xe6\x97", `$'\346\227'`, `\xe6\x97`},
}

func TestName(t *testing.T) {
	for _, tt := range names {
		assert.Equal(t, tt.want, Name(tt.name), "%q", tt.name)
	}
	assert.Equal(t, `$'a\x00b'`, Name("a\x00b"))
}

func TestText(t *testing.T) {
	for _, tt := range names {
		assert.Equal(t, tt.text, Text(tt.name), "%q", tt.name)
	}
	assert.Equal(t, `open a\x0ab: no such file`, Text("open a\nb: no such file"))
}

// Every rune of the planes in use (and a few of private use) is either shown or escaped, never dropped or replaced, and
// nothing of the named kinds is shown.
func TestEveryRuneIsShownOrEscaped(t *testing.T) {
	const block = 1 << 10
	for first := rune(0); first < 0xf1000; first += block {
		if first == 0x40000 {
			first = 0xe0000 // nothing is assigned between
		}
		var sb strings.Builder
		for c := first; c < first+block; c++ {
			if !utf8.ValidRune(c) {
				continue
			}
			sb.WriteRune(c)
			if !unicode.IsPrint(c) && Text(string(c)) == string(c) {
				t.Fatalf("U+%04X is not escaped", c)
			}
		}
		s := sb.String()
		if !harmless(Name(s)) || !harmless(Text(s)) {
			t.Fatalf("from U+%04X on: %s and %s", first, Name(s), Text(s))
		}
		if back := unquote(t, Name(s)); back != s {
			t.Fatalf("from U+%04X on: comes back as %q", first, back)
		}
	}
}

// harmless reports whether nothing in s needs an escape, by tables other
// than those of the code under test.
func harmless(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs,
			unicode.Bidi_Control, unicode.Join_Control, unicode.Variation_Selector) ||
			c != ' ' && unicode.Is(unicode.Zs, c) {
			return false
		}
	}
	return true
}

// unquote reads back what Name has written, by the rules of a shell.
func unquote(t testing.TB, s string) string {
	t.Helper()
	inner, quoted := strings.CutSuffix(s, "'")
	if plain, ok := strings.CutPrefix(inner, "'"); ok && quoted && !strings.Contains(plain, "'") {
		return plain
	}
	inner, ok := strings.CutPrefix(inner, "$'")
	if !ok || !quoted {
		t.Fatalf("no quoted word: %s", s)
	}
	var out []byte
	for inner != "" {
		b, size, ok := firstByte(inner)
		if !ok {
			t.Fatalf("a bare quote or unknown escape in %s", s)
		}
		out = append(out, b)
		inner = inner[size:]
	}
	return string(out)
}

// firstByte returns the first byte that s encodes inside $'...', and the number of
// bytes of s that encode it.
func firstByte(s string) (b byte, size int, ok bool) {
	if s[0] != '\\' {
		return s[0], 1, s[0] != '\''
	}
	if len(s) >= 2 {
		if i := strings.IndexByte(`abtnvfr\'`, s[1]); i >= 0 {
			return "\a\b\t\n\v\f\r\\'"[i], 2, true
		}
	}
	if len(s) < 4 {
		return 0, 0, false
	}
	digits, base := s[1:4], 8
	if s[1] == 'x' {
		digits, base = s[2:4], 16
	}
	v, err := strconv.ParseUint(digits, base, 8)
	return byte(v), 4, err == nil
}

// TestBashReadsNamesBack pastes names into the real bash and compares bytes.
func TestBashReadsNamesBack(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed: there is nothing to paste into")
	}
	var all []string
	for _, tt := range names {
		all = append(all, tt.name)
	}
	for b := 1; b < 0x100; b++ {
		// Alone, and in front of what an escape of variable length would swallow.
		all = append(all, string([]byte{byte(b)}), string([]byte{byte(b), '7', 'f'}), string([]byte{'\'', byte(b)}))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "7", "f", " ", "'", `\`, "$", "!", "\n", "\x1b", "\x01", "\x7f", "\xff", "\xc3", "é", "日", "\u202e", "\u0085", "{", "`", `"`}
	for range 2000 {
		var sb strings.Builder
		for range 1 + rng.IntN(12) {
			sb.WriteString(pieces[rng.IntN(len(pieces))])
		}
		all = append(all, sb.String())
	}
	for _, locale := range []string{"C", "C.UTF-8"} {
		t.Run(locale, func(t *testing.T) {
			var script bytes.Buffer
			for _, name := range all {
				script.WriteString("printf %s " + Name(name) + "; printf '\\0'\n")
			}
			cmd := exec.Command(bash, "--norc", "--noprofile")
			cmd.Env = append(os.Environ(), "LC_ALL="+locale)
			cmd.Stdin = &script
			out, err := cmd.Output()
			require.NoError(t, err)
			got := strings.Split(string(out), "\x00")
			require.Len(t, got, len(all)+1)
			for i, name := range all {
				require.Equal(t, []byte(name), []byte(got[i]), "pasted: %s", Name(name))
			}
		})
	}
}

// Where there is nothing to escape, Name allocates its result and Text nothing.
func TestNothingToEscapeAllocatesNoMoreThanTheResult(t *testing.T) {
	var sink string
	plain := strings.Repeat("plain é ", 20)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { sink = Name(plain) }), 1.0)
	assert.Zero(t, testing.AllocsPerRun(100, func() { sink = Text(plain) }))
	_ = sink
}

func BenchmarkName(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Name("some/usual/path/of a file é.tar.gz")
	}
}

func FuzzName(f *testing.F) {
	for _, tt := range names {
		f.Add(tt.name)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := Name(s)
		assert.True(t, harmless(q), "%q", q)
		assert.Equal(t, s, unquote(t, q))
	})
}

func FuzzText(f *testing.F) {
	for _, tt := range names {
		f.Add(tt.name)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Text(s)
		assert.True(t, harmless(once), "%q", once)
		assert.Equal(t, once, Text(once), "a second pass finds nothing to do")
		if harmless(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
			assert.GreaterOrEqual(t, len(once), len(s))
		}
	})
}

func TestPlain(t *testing.T) {
	for _, s := range []string{"a", "a b.txt", "d/e: f", "it's", "ünïcødé", `back\slash`, "$HOME", "a$'b", `"x"`} {
		require.Equal(t, s, Plain(s))
	}
	for _, s := range []string{"", " a", "a ", "'a'", "'", "$'a'", "a\nb", "\x1b[31m", "bad\xff", "a\u202eb"} {
		require.Equal(t, Name(s), Plain(s))
	}
}
