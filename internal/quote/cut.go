package quote

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width returns how many columns of a terminal a text without control characters uses.
func Width(text string) int { return uniseg.StringWidth(text) }

// Cut takes the middle out of a text that is wider than so many columns. The beginning
// and the end of a name say most. A mark is in its place: an ellipsis, or dots where
// Unicode is not to be used.
func Cut(text string, width int, unicode bool) string {
	if Width(text) <= width {
		return text
	}
	mark := "..."
	if unicode {
		mark = "…"
	}
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

// Head returns the beginning of a text, at most so many columns of it.
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

// clustersOf returns what a reader takes for the characters of a text.
func clustersOf(text string) (clusters []string) {
	for g := uniseg.NewGraphemes(text); g.Next(); {
		clusters = append(clusters, g.Str())
	}
	return clusters
}
