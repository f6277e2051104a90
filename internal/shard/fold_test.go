package shard

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func TestFold(t *testing.T) {
	for _, same := range [][]string{
		{"a", "A"},
		{"é.txt", "E\u0301.TXT", "e\u0301.txt"},
		{"straße", "STRASSE", "STRAẞE"},
		{"ﬁlm", "FILM"},
		{"İ", "i", "I", "ı"},
		{"K", "k", "\u212a"},
		{"Σίσυφος", "ΣΊΣΥΦΟΣ", "σίσυφοσ"},
		{"ᾳ", "ΑΙ"},
		{"a\u200db", "ab"},
		{"name. .", "NAME"},
		{"\xff\xfeA", "\xff\xfea"},
	} {
		for _, name := range same {
			assert.Equal(t, fold(same[0]), fold(name), "%q and %q", same[0], name)
		}
	}
	for _, other := range [][2]string{{"a", "b"}, {"a.b", "ab"}, {"clip 1", "clip1"}, {"\xff", "\xfe"}, {"語", "言"}} {
		assert.NotEqual(t, fold(other[0]), fold(other[1]))
	}
}

func TestFoldIsTheSameForAllSpellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		want := fold(name)
		for _, spelling := range []string{norm.NFC.String(name), norm.NFD.String(name), norm.NFKC.String(name), want} {
			// The library composes some letters of others: golang/go#81028. Sealift only decomposes.
			if norm.NFKD.String(spelling) != norm.NFKD.String(name) && spelling != want {
				continue
			}
			if got := fold(spelling); got != want {
				t.Fatalf("%q and %q: %q and %q", name, spelling, want, got)
			}
		}
		if strings.IndexByte(name, 0) < 0 && strings.IndexByte(want, 0) >= 0 {
			t.Fatalf("NUL in the key of %q", name)
		}
	})
}
