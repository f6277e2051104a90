package shard

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// fold returns a key for a name. If any file system treats two names as equal, their keys are
// equal. Other names may have equal keys, too: these only share a shard. The key covers
//
//   - simple and full case folding, the Turkish letters, and compatibility decomposition,
//     which is more than APFS, NTFS, exFAT, ZFS and the casefold feature of ext4 and f2fs do,
//   - code points that are ignored there (Default_Ignorable_Code_Point, in part),
//   - dots and spaces at the end, which FAT and Windows remove.
//
// Bytes that are not UTF-8 stay. The key contains no NUL.
func fold(name string) string {
	if isPlain(name) {
		return strings.TrimRight(name, ". ")
	}
	var b strings.Builder
	for rest := norm.NFKD.String(name); rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteByte(rest[0])
		case r == 'ß' || r == 'ẞ':
			b.WriteString("ss")
		case ignored(r):
		default:
			b.WriteRune(foldRune(r))
		}
		rest = rest[size:]
	}
	return strings.TrimRight(norm.NFKD.String(b.String()), ". ")
}

// isPlain reports whether a name is folded already: most names are.
func isPlain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

// ignored reports whether a file system may ignore the rune in a name.
func ignored(r rune) bool {
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) || r == 0x034F || r == 0x0307
}

// foldRune returns the smallest rune of those that differ from r in case only.
func foldRune(r rune) rune {
	if r == 'ı' {
		return 'i'
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	if 'A' <= least && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}
