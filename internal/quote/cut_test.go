package quote

import (
	"strings"
	"testing"
)

func TestALongNameKeepsItsBeginningAndEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		width int
		want  string
	}{
		{"abcdefghij", 10, "abcdefghij"},
		{"abcdefghijk", 10, "abcde…hijk"},
		{"abcdefghijk", 5, "ab…jk"},
		{"abcdefghijk", 1, "…"},
		{"日本語日本語", 12, "日本語日本語"},
		{"日本語日本語", 11, "日本…日本語"},
		{"日本語日本語", 10, "日本…本語"}, // 9 columns: half a character is none
		{"日本語日本語", 6, "日…語"},
		{"e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301", 6, "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301", 5, "e\u0301e\u0301…e\u0301e\u0301"},
	} {
		if got := Cut(c.name, c.width, true); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.name, c.width, got, c.want)
		}
	}
	if got := Cut("abcdefghijk", 8, false); got != "abc...jk" {
		t.Errorf("in ASCII: %q", got)
	}
	if got := Cut("abcdefghijk", 2, false); got != "" {
		t.Errorf("in fewer columns than the mark: %q", got)
	}
}

func TestTheHeadOfATextIsWholeCharacters(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"abc", 0, ""},
		{"日本", 3, "日"},
		{"e\u0301e\u0301", 1, "e\u0301"},
	} {
		if got := Head(c.text, c.width); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// FuzzCut shortens names: the rest fills the available width, or nearly, and
// consists of complete characters of the beginning and the end.
func FuzzCut(f *testing.F) {
	f.Add("home/ann/\U0001f468\u200d\U0001f469\u200d\U0001f467/film.mkv", uint8(9), true)
	f.Add("x"+strings.Repeat("\u0301", 100)+"\u0c15\u0c4d\u0c37\x1b\xff", uint8(0), false)
	f.Fuzz(func(t *testing.T, name string, more uint8, unicode bool) {
		width := 5 + int(more)
		name = Plain(name)
		got := Cut(name, width, unicode)
		if Width(name) <= width {
			if got != name {
				t.Fatalf("%q fits %d and became %q", name, width, got)
			}
			return
		}
		if n := Width(got); n > width || n < width-3 { // a wide character less on each side
			t.Fatalf("%q is %d wide, for %d", got, n, width)
		}
		mark := "..."
		if unicode {
			mark = "…"
		}
		for at := strings.Index(got, mark); ; at++ {
			if at >= len(got) {
				t.Fatalf("%q is not of %q", got, name)
			}
			if strings.HasPrefix(got[at:], mark) && strings.HasPrefix(name, got[:at]) && strings.HasSuffix(name, got[at+len(mark):]) {
				return
			}
		}
	})
}
