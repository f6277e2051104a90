package progress

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// destination is what is shown of one of several destinations.
type destination struct {
	name      string // quoted
	rate      float64
	unwritten int64
	state     string
}

// limiting is the least unwritten data of a destination that limits the others: so many
// bytes, and so many times those of any other.
const (
	limitingBytes = 8 << 20
	limitingRatio = 2
)

// takeDestinations reads the counters of the destinations. Each byte is written to all of
// them, so what one of them has is what was read, without its unwritten data.
func (s *sampler) takeDestinations(now time.Time, c *counters.Set) []destination {
	var shown []destination
	most, second := -1, int64(0)
	for i, d := range c.Destinations() {
		if i == len(s.destinations) {
			s.destinations = append(s.destinations, newSampler(now))
		}
		at := &s.destinations[i]
		unwritten := max(d.Unwritten.Load(), 0)
		bytes := at.written(max(c.Bytes.Load()-c.Unread.Load(), 0), unwritten)
		x := sample{at: now, bytes: bytes}
		line := destination{name: quote.Name(d.Name), rate: at.since(now.Add(-rateWindow)).rateTo(x), unwritten: unwritten}
		at.add(x)
		if why := d.Dropped.Load(); why != nil {
			line.rate, line.unwritten, line.state = 0, 0, "dropped: "+quote.Text(*why)
		} else if most < 0 || unwritten > shown[most].unwritten {
			if most >= 0 {
				second = max(second, shown[most].unwritten)
			}
			most = i
		} else {
			second = max(second, unwritten)
		}
		shown = append(shown, line)
	}
	if most >= 0 && shown[most].unwritten >= max(limitingBytes, limitingRatio*second) {
		shown[most].state = "limited by this disk"
	}
	return shown
}

// destinationLines draws one line per destination, each shorter than the terminal is wide.
func destinationLines(list []destination, columns int) (lines []string) {
	space := max(columns-1, 0)
	width := 0
	for _, d := range list {
		width = max(width, uniseg.StringWidth(d.name))
	}
	width = min(width, space/3)
	for _, d := range list {
		name := shorten(d.name, width)
		text := d.state
		if !strings.HasPrefix(text, "dropped") {
			text = fmt.Sprintf("%9s  %7s unwritten  %s", Rate(d.rate), Size(d.unwritten), d.state)
		}
		gap := strings.Repeat(" ", max(width-uniseg.StringWidth(name), 0)+2)
		lines = append(lines, shortenEnd(strings.TrimRight(name+gap+text, " "), space))
	}
	return lines
}

// shorten keeps the end of a name, which tells destinations apart.
func shorten(text string, width int) string {
	clusters := clustersOf(text)
	for uniseg.StringWidth(text) > width && len(clusters) > 0 {
		clusters = clusters[1:]
		text = ".." + strings.Join(clusters, "")
	}
	if uniseg.StringWidth(text) > width {
		return ""
	}
	return text
}

// shortenEnd keeps the beginning of a line.
func shortenEnd(text string, width int) string {
	clusters := clustersOf(text)
	for uniseg.StringWidth(text) > width {
		clusters = clusters[:len(clusters)-1]
		text = strings.Join(clusters, "")
	}
	return text
}

func clustersOf(text string) (clusters []string) {
	for g := uniseg.NewGraphemes(text); g.Next(); {
		clusters = append(clusters, g.Str())
	}
	return clusters
}
