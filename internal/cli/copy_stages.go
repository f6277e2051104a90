package cli

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/timing"
	"github.com/seed65876f4f/sealift/internal/units"
)

// leastLimited is the shortest run for which the summary prints what limited it. Shorter runs
// spend most of their time on starting and ending.
const leastLimited = 50 * time.Millisecond

// leastShare is the smallest share of the time with which a place limits a run; a smaller one is
// printed as 0 %. A run that waited for another run, for example, was limited by no place.
const leastShare = 0.005

// limitOf returns the place that limited a run. It returns nil if nothing was copied, if the run
// was shorter than leastLimited, or if no place has leastShare.
func limitOf(s *engine.Summary) *engine.Share {
	copied := s.Files + s.Directories + s.Links + s.HardLinks + s.Specials
	if s.DryRun || copied == 0 || s.Elapsed < leastLimited || s.Limit.Place == "" || s.Limit.Share < leastShare {
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

// briefly names a place in the columns of the table.
func briefly(place, target string, several bool) string {
	switch {
	case place == "none":
		return ""
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

// waits has the table's names of the stages that are waits.
var waits = map[timing.Kind]string{
	timing.List:   "wait for a name",
	timing.Queue:  "wait for a lane",
	timing.Window: "wait for the window",
	timing.Turn:   "wait for a turn",
	timing.Block:  "wait for a block",
	timing.Pace:   "wait for --bwlimit",
	timing.Note:   "wait for a record",
}

// stageRow returns the texts of a stage for a table. shown is false if the table leaves it out.
func stageRow(l engine.StageSummary, several bool) (row report.Stage, shown bool) {
	if l.Time < leastShown && l.Operations == 0 {
		return row, false
	}
	row = report.Stage{Stage: l.Stage.String(), Place: briefly(l.Place, l.Target, several), Time: duration(l.Time)}
	if l.Stage.Waits() {
		row.Stage = waits[l.Stage]
	}
	if l.Bytes > 0 {
		row.Size, row.Rate = units.Size(l.Bytes), units.Rate(rate(l.Bytes, l.Time))
	}
	if l.Operations > 0 {
		row.Operations = grouped(l.Operations)
	}
	return row, true
}

// leastShown is the shortest time of a stage without operations that the table shows.
const leastShown = time.Millisecond

// stageTable returns the lines of --debug: the time of each stage and the shares of the places.
func stageTable(s *engine.Summary) []string {
	if len(s.Stages) == 0 {
		return nil
	}
	several, width := len(s.Targets) > 1, len("destination")
	for _, t := range s.Targets {
		if several {
			width = max(width, utf8.RuneCountInString(quote.Name(t.Path)))
		}
	}
	line := func(row report.Stage, share string) string {
		text := fmt.Sprintf("%-20s %-*s %8s %6s %8s %9s %10s", row.Stage, width, row.Place, row.Time, share, row.Size, row.Rate, row.Operations)
		return strings.TrimRight(text, " ")
	}
	lines := []string{
		"where the time went (100 % is one goroutine for all of " + duration(s.Elapsed) + ")",
		line(report.Stage{Stage: "stage", Place: "place", Time: "time", Size: "size", Rate: "rate", Operations: "operations"}, ""),
	}
	for _, l := range s.Stages {
		if row, shown := stageRow(l, several); shown {
			lines = append(lines, line(row, percent(l.Time.Seconds()/max(s.Elapsed, 1).Seconds())))
		}
	}
	var shares []string
	for _, share := range s.Shares {
		if text := percent(share.Share); text != percent(0) {
			shares = append(shares, briefly(share.Place, share.Target, several)+" "+text)
		}
	}
	return append(lines, "what was waited for: "+strings.Join(shares, ", "))
}

// stages logs the time of each stage, the shares of the places, and the limit.
func (l *fileLog) stages(s *engine.Summary) {
	for _, stage := range s.Stages {
		l.line(slog.LevelInfo, "stage", "", stage.Target, "stage", stage.Stage.String(), "place", stage.Place,
			"busy", stage.Time, "bytes", stage.Bytes, "operations", stage.Operations)
	}
	for _, share := range s.Shares {
		l.line(slog.LevelInfo, "share", "", share.Target, "place", share.Place, "share", thousandths(share.Share))
	}
	if limit := limitOf(s); limit != nil {
		l.line(slog.LevelInfo, "limit", "", limit.Target, "place", limit.Place, "share", thousandths(limit.Share))
	}
}

// thousandths rounds to three decimals.
func thousandths(share float64) float64 { return math.Round(share*1000) / 1000 }

// stageJSON is the time that a copy spent on one stage at one place.
type stageJSON struct {
	Stage      string  `json:"stage"`
	Place      string  `json:"place"`   // source, cpu, destination, limit or none
	Target     string  `json:"target"`  // the destination; "" for other places
	Waiting    bool    `json:"waiting"` // the stage is a wait, not work
	Seconds    float64 `json:"seconds"` // sum over all goroutines
	Bytes      int64   `json:"bytes"`
	Operations int64   `json:"operations"`
}

// shareJSON is the part of its time that a copy waited for one place.
type shareJSON struct {
	Place  string  `json:"place"`  // as in stageJSON
	Target string  `json:"target"` // one destination; "" for other places and for all destinations together
	Share  float64 `json:"share"`  // of the whole run, from 0 to 1
}

func newShareJSON(s engine.Share) shareJSON {
	return shareJSON{s.Place, s.Target, thousandths(s.Share)}
}

func newStagesJSON(s *engine.Summary) (stages []stageJSON, shares []shareJSON, limit *shareJSON) {
	stages, shares = []stageJSON{}, []shareJSON{} // [] and not null
	for _, t := range s.Stages {
		stages = append(stages, stageJSON{t.Stage.String(), t.Place, t.Target, t.Stage.Waits(), t.Time.Seconds(), t.Bytes, t.Operations})
	}
	for _, share := range s.Shares {
		shares = append(shares, newShareJSON(share))
	}
	if l := limitOf(s); l != nil {
		limit = new(newShareJSON(*l))
	}
	return stages, shares, limit
}
