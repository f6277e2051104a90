package progress

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/units"
)

// Lengths of the part that the library draws, in columns.
const (
	minBar = 8
	maxBar = 40
	// barFrame is what the library adds to the bar itself: the percentage
	// ("  45% "), two brackets, and three spaces.
	barFrame = 6 + 2 + 3
)

// field is one fact behind the bar. Its width never changes once the totals are
// known, so that nothing on the line moves.
type field struct {
	text string
	drop int // fields with the highest number go first when space is short
}

// barLine draws one frame for a terminal of that many columns. The line is
// shorter than the terminal is wide: writing into the last column makes some
// terminals wrap.
func barLine(s snapshot, columns, frame int) string {
	space := max(columns-1, 0)
	var line string
	if s.totalsKnown {
		facts := fit(s.knownFields(), space-barFrame-minBar)
		line = meter(s.percent(), min(space-barFrame-len(facts), maxBar), facts)
	} else {
		line = spinner(frame, fit(s.unknownFields(), space-2))
	}
	line = strings.TrimRight(line, " ")
	return line[:min(len(line), space)] // all ASCII
}

func (s snapshot) knownFields() []field {
	fields := []field{{fmt.Sprintf("%7s/%s", Size(s.bytes), Size(s.totalBytes)), 1}}
	if !s.bytesOnly {
		fields = append(fields, field{fmt.Sprintf("%5s/%s files", units.Count(s.files), units.Count(s.totalFiles)), 3})
	}
	return append(fields,
		field{fmt.Sprintf("%9s", Rate(s.rate)), 0},
		field{fmt.Sprintf("avg %9s", Rate(s.average)), 4},
		field{fmt.Sprintf("%-*s", stateWidth, s.state()), 2},
	)
}

// stateWidth holds "flushing 59:59" and "ETA 100:00:00".
const stateWidth = 14

// state is the time left or the phase, which share a place. While flushing it is both, as
// long as they fit: nothing is read any more, and the phase says why.
func (s snapshot) state() string {
	eta, ok := s.eta()
	switch {
	case !ok || s.phase == counters.PhaseDone:
	case s.phase != counters.PhaseFlushing:
		return "ETA " + Clock(eta)
	default:
		if both := s.phase.String() + " " + Clock(eta); len(both) <= stateWidth {
			return both
		}
	}
	return s.phase.String()
}

func (s snapshot) unknownFields() []field {
	fields := []field{{fmt.Sprintf("%7s", Size(s.bytes)), 0}}
	if !s.bytesOnly {
		fields = append(fields, field{fmt.Sprintf("%5s files", units.Count(s.files)), 1})
	}
	return append(fields,
		field{fmt.Sprintf("%9s", Rate(s.rate)), 2},
		field{fmt.Sprintf("avg %9s", Rate(s.average)), 4},
		field{fmt.Sprintf("%-9s", s.phase), 3}, // as long as "verifying"
	)
}

// fit joins as many fields as there is space for, in their order.
func fit(fields []field, space int) string {
	for {
		texts := make([]string, len(fields))
		for i, f := range fields {
			texts[i] = f.text
		}
		line := strings.Join(texts, " ")
		if len(line) <= space || len(fields) <= 1 {
			return line
		}
		first := slices.MaxFunc(fields, func(a, b field) int { return a.drop - b.drop })
		fields = slices.DeleteFunc(fields, func(f field) bool { return f == first })
	}
}

// meter lets the library draw a bar of that width with text behind it. Each
// frame is drawn by a fresh bar into nowhere and taken as a string: a lasting
// one draws nothing more once it was full, clears the line in a write of its
// own, which flickers, and fits its width to a file that it must own.
func meter(percent, width int, text string) string {
	bar := newBar(100, text,
		progressbar.OptionSetWidth(max(width, 1)),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionSetPredictTime(false),
	)
	_ = bar.Set(percent) // cannot fail: nothing is written, and the number is within bounds
	return frameOf(bar)
}

// spinner lets the library draw a turning stroke with text behind it.
func spinner(frame int, text string) string {
	strokes := []string{"|", "/", "-", `\`}
	turn := frame % len(strokes)
	return frameOf(newBar(-1, text, progressbar.OptionSpinnerCustom(strokes[turn:turn+1]), progressbar.OptionSetElapsedTime(false)))
}

func newBar(total int64, text string, options ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, append(options,
		progressbar.OptionSetWriter(io.Discard),
		progressbar.OptionSetDescription(text),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetSpinnerChangeInterval(0), // or else it starts a goroutine
		progressbar.OptionThrottle(0),
	)...)
}

func frameOf(bar *progressbar.ProgressBar) string {
	_ = bar.RenderBlank() // Set does not draw 0 %, and a spinner draws nothing else
	return strings.TrimPrefix(bar.String(), "\r")
}
