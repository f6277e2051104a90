package progress

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// Look describes what the terminal can show.
type Look struct {
	Unicode       bool
	Bar, Bad, Off string // SGR sequences; "" without colours
}

func (l Look) bad(text string) string {
	if text == "" {
		return ""
	}
	return l.Bad + text + l.Off
}

// Widths of the first line, in columns.
const (
	minBar = 8
	// phaseWidth is that of the longest phase, "verifying" or "comparing".
	phaseWidth = 9
	// percentWidth is that of the percentage that the library draws before the bar: "  45% ".
	percentWidth = 6
)

// mostRunning limits the running files that are shown. A line with fewer columns than leastRunning has no
// space for a percentage beside the name.
const (
	mostRunning  = 4
	leastRunning = 40
)

// view draws one frame for a terminal of the given size: the bar, the facts, a line per
// destination if there are several. A line about a check and the files in progress follow. Lines
// are at least one column narrower than the terminal, because some terminals wrap after the last
// column. There is at least one line less than the terminal has, so that the view does not
// scroll it.
func view(s snapshot, columns, rows, frame int, look Look) []string {
	space := max(columns-1, 0)
	lines := []string{s.barLine(space, frame, look), s.factsLine(space)}
	lines = append(lines, destinationLines(s.destinations, space, look)...)
	if check := s.check(); check != "" {
		lines = append(lines, quote.Head(check, space))
	}
	if room := min(rows/3, rows-1-len(lines), mostRunning); len(s.running) > 0 && room > 0 && space >= leastRunning {
		lines = append(lines, runningLines(s.running, room, space, look)...)
	} else if s.current != "" {
		lines = append(lines, quote.Cut(quote.Name(s.current), space, look.Unicode))
	}
	return lines[:min(len(lines), max(rows-1, 1))]
}

// leastTime is the time after which a running file is shown. Files that end earlier would change the lines with
// each frame.
const leastTime = time.Second

// longRunning has the running files of the last frame by their path, and when each was seen first.
type longRunning map[string]time.Time

// lasting returns the running files that are in progress for at least leastTime.
func (l *longRunning) lasting(now time.Time, list []counters.Running) []counters.Running {
	began := *l
	*l = make(longRunning, len(list))
	return slices.DeleteFunc(list, func(f counters.Running) bool {
		first, known := began[f.Path]
		if !known {
			first = now
		}
		(*l)[f.Path] = first
		return now.Sub(first) < leastTime
	})
}

// runningLines draws the running files of which the most bytes are left, in the order of their paths. A file that is
// read completely, but not done, has 99 %.
func runningLines(list []counters.Running, most, space int, look Look) (lines []string) {
	left := func(f counters.Running) int64 { return f.Size - f.At }
	list = slices.SortedStableFunc(slices.Values(list), func(a, b counters.Running) int { return cmp.Compare(left(b), left(a)) })
	list = list[:min(len(list), most)]
	slices.SortStableFunc(list, func(a, b counters.Running) int { return cmp.Compare(a.Path, b.Path) })
	for _, f := range list {
		start := fmt.Sprintf("%3d%%  ", min(int(100*float64(f.At)/float64(f.Size)), 99))
		lines = append(lines, start+quote.Cut(quote.Name(f.Path), space-len(start), look.Unicode))
	}
	return lines
}

// barLine draws the phase, the bar and the time left. On a narrow terminal it leaves out the time,
// then the phase.
func (s snapshot) barLine(space, frame int, look Look) string {
	if !s.totalsKnown {
		return quote.Head(spinner(frame, s.phase.String()), space)
	}
	phase := fmt.Sprintf("%-*s", phaseWidth, s.phase)
	left := s.left()
	ends := 0
	if !look.Unicode {
		ends = len("[]")
	}
	width := func() int { return space - len(phase) - percentWidth - ends - len("  ") - len(left) }
	if width() < minBar {
		left = ""
	}
	if width() < minBar {
		phase = ""
	}
	if width() < 1 {
		return quote.Head(fmt.Sprintf("%d%%", s.percent()), space)
	}
	return phase + strings.TrimRight(meter(s.percent(), width(), left, look), " ")
}

// leftWidth is the width of "ETA 59:59". With hours the text is longer, and the bar shorter.
const leftWidth = 9

// left returns the time left, or as many spaces while it is unknown, so that the length of the bar
// does not change.
func (s snapshot) left() string {
	eta, ok := s.eta()
	if !ok || s.phase == counters.PhaseDone {
		return strings.Repeat(" ", leftWidth)
	}
	return fmt.Sprintf("%*s", leftWidth, "ETA "+units.Clock(eta))
}

// factsLine draws bytes, files and rates.
func (s snapshot) factsLine(space int) string {
	bytes, files := fmt.Sprintf("%7s", units.Size(s.bytes)), fmt.Sprintf("%5s", units.Count(s.files))
	if s.totalsKnown {
		bytes += "/" + units.Size(s.totalBytes)
		files += "/" + units.Count(s.totalFiles)
	}
	fields := []field{{bytes, 1}}
	if !s.bytesOnly {
		fields = append(fields, field{files + " files", 2})
	}
	return fit(append(fields,
		field{fmt.Sprintf("%9s", units.Rate(s.rate)), 0},
		field{fmt.Sprintf("avg %9s", units.Rate(s.average)), 3},
	), space)
}

// field is one fact of a line. Its width does not change once the totals are known, so that the
// fields do not move.
type field struct {
	text string
	drop int // rank: without space for all fields, the one with the highest rank is left out first
}

// fit joins the fields that fit into space columns, in their order.
func fit(fields []field, space int) string {
	for {
		texts := make([]string, len(fields))
		for i, f := range fields {
			texts[i] = f.text
		}
		line := strings.Join(texts, "  ")
		if len(line) <= space {
			return line
		}
		if len(fields) == 1 {
			return quote.Head(strings.TrimLeft(line, " "), max(space, 0))
		}
		first := slices.MaxFunc(fields, func(a, b field) int { return a.drop - b.drop })
		fields = slices.DeleteFunc(fields, func(f field) bool { return f == first })
	}
}

// meter returns a bar of the given width, drawn by the library, with text after it. It makes a new
// bar for each frame and takes its text as a string. A permanent bar would stop drawing once it
// is full, flicker because it clears the line in a separate write, and take its width from a
// file that it owns.
func meter(percent, width int, text string, look Look) string {
	theme := progressbar.ThemeASCII
	if look.Unicode {
		theme = progressbar.Theme{Saucer: "█", SaucerPadding: "░"}
	}
	theme.BarStart, theme.BarEnd = look.Bar+theme.BarStart, theme.BarEnd+look.Off
	bar := newBar(100, text,
		progressbar.OptionSetWidth(width),
		progressbar.OptionSetTheme(theme),
		progressbar.OptionSetPredictTime(false),
	)
	_ = bar.Set(percent) // cannot fail: nothing is written, and the number is within bounds
	return frameOf(bar)
}

// spinner returns a turning stroke, drawn by the library, with text after it.
func spinner(frame int, text string) string {
	strokes := []string{"|", "/", "-", `\`}
	turn := frame % len(strokes)
	drawn := frameOf(newBar(-1, text, progressbar.OptionSpinnerCustom(strokes[turn:turn+1]), progressbar.OptionSetElapsedTime(false)))
	return strings.Join(strings.Fields(drawn), " ")
}

func newBar(total int64, text string, options ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, append(options,
		progressbar.OptionSetWriter(io.Discard),
		progressbar.OptionSetDescription(text),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetSpinnerChangeInterval(0), // otherwise the library starts a goroutine
		progressbar.OptionThrottle(0),
	)...)
}

func frameOf(bar *progressbar.ProgressBar) string {
	_ = bar.RenderBlank() // Set does not draw 0 %, and does not draw spinners
	return strings.TrimPrefix(bar.String(), "\r")
}
