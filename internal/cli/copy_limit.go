package cli

import (
	"fmt"
	"log/slog"
	"math"
	"strings"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// leastShare is the smallest share of the time with which a place limits a run; a smaller one is
// printed as 0 %. A run that waited for another run, for example, was limited by no place.
const leastShare = 0.005

// limitOf returns the place that limited a run. It returns nil if nothing was copied, or if no
// place has leastShare.
func limitOf(s *engine.Summary) *engine.Share {
	copied := s.Files + s.Directories + s.Links + s.HardLinks + s.Specials
	if s.DryRun || copied == 0 || s.Limit.Place == "" || s.Limit.Share < leastShare {
		return nil
	}
	return &s.Limit
}

// limited describes what limited a run: "the destination, 92 % of the time".
func limited(l *engine.Share, several bool) string {
	return nameOf(l, several) + ", " + percent(l.Share) + " of the time"
}

// nameOf names a place. If there are several destinations, it says which one.
func nameOf(l *engine.Share, several bool) string {
	switch {
	case l.Place == "limit":
		return "--bwlimit"
	case l.Place == "destination" && several && l.Target == "":
		return "the destinations"
	case l.Place == "destination" && several:
		return "the destination " + quote.Name(l.Target)
	}
	return "the " + briefly(l.Place, l.Target, false)
}

// briefly names a place in a list.
func briefly(place, target string, several bool) string {
	switch {
	case place == "cpu":
		return "CPU"
	case place == "limit":
		return "--bwlimit"
	case several && target != "":
		return quote.Name(target)
	}
	return place
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// debugLines returns the lines of --debug: the shares of the places, and the counters.
func debugLines(s *engine.Summary, c *counters.Set) (lines []string) {
	var shares []string
	for _, share := range s.Shares {
		if text := percent(share.Share); text != percent(0) {
			shares = append(shares, briefly(share.Place, share.Target, len(s.Targets) > 1)+" "+text)
		}
	}
	if len(shares) > 0 {
		lines = append(lines, "waited for: "+strings.Join(shares, ", "))
	}
	counted := "counted: " + plural(c.Files.Load(), "file") + ", " + units.Size(c.Bytes.Load())
	if n := c.Unread.Load(); n > 0 {
		counted += ", " + units.Size(n) + " of it not read"
	}
	if n := c.ReadBack.Bytes.Load(); n > 0 {
		counted += ", " + units.Size(n) + " read back"
	}
	if n := c.DeviceRate.Load(); n > 0 {
		counted += ", slowest device " + units.Rate(float64(n))
	}
	return append(lines, counted)
}

// logLimit logs the place that limited the run.
func (l *fileLog) logLimit(s *engine.Summary) {
	if limit := limitOf(s); limit != nil {
		l.line(slog.LevelInfo, "limit", "", limit.Target, "place", limit.Place, "share", thousandths(limit.Share))
	}
}

// thousandths rounds to three decimals.
func thousandths(share float64) float64 { return math.Round(share*1000) / 1000 }

// shareJSON is the part of its time that a copy waited for one place.
type shareJSON struct {
	// Its name: source; cpu, also for file systems in memory; destination; or limit (--bwlimit). Others
	// may be added.
	Place string `json:"place"`
	// The destination, as it was given; empty for other places, and for all destinations together.
	Target string  `json:"destination"`
	Share  float64 `json:"share"` // The part of the whole time, to three decimals.
}

// newLimitJSON returns the place that limited the run, or nil.
func newLimitJSON(s *engine.Summary) *shareJSON {
	limit := limitOf(s)
	if limit == nil {
		return nil
	}
	return &shareJSON{limit.Place, limit.Target, thousandths(limit.Share)}
}
