package quote

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width returns how many columns of a terminal a text without control characters uses.
func Width(text string) int { return uniseg.StringWidth(text) }

// Cut shortens a text to width columns. It removes the middle, because the beginning and the
// end of a name are the most useful parts. It inserts an ellipsis there, or dots if unicode is
// false.
func Cut(text string, width int, unicode bool) string {
	if Width(text) <= width {
		return text
	}
	mark := Ellipsis(unicode)
	space := width - Width(mark)
	if space < 0 {
		return ""
	}
	clusters := clustersOf(text)
	head, tail, used := 0, len(clusters), 0
	for ; used+Width(clusters[head]) <= (space+1)/2; head++ {
		used += Width(clusters[head])
	}
	for ; used+Width(clusters[tail-1]) <= space; tail-- {
		used += Width(clusters[tail-1])
	}
	return strings.Join(clusters[:head], "") + mark + strings.Join(clusters[tail:], "")
}

// Ellipsis returns the mark of text that is left out.
func Ellipsis(unicode bool) string {
	if unicode {
		return "…"
	}
	return "..."
}

// CutEnd shortens a text to width columns, and ends it with an ellipsis, or dots if unicode is false.
func CutEnd(text string, width int, unicode bool) string {
	if Width(text) <= width {
		return text
	}
	mark := Ellipsis(unicode)
	if width < Width(mark) {
		return ""
	}
	return Head(text, width-Width(mark)) + mark
}

// Head returns the beginning of a text, at most width columns of it.
func Head(text string, width int) string {
	used, end := 0, 0
	for g := uniseg.NewGraphemes(text); g.Next(); {
		if used += g.Width(); used > width {
			break
		}
		_, end = g.Positions()
	}
	return text[:end]
}

// clustersOf returns the grapheme clusters of a text, which readers see as its characters.
func clustersOf(text string) (clusters []string) {
	for g := uniseg.NewGraphemes(text); g.Next(); {
		clusters = append(clusters, g.Str())
	}
	return clusters
}
