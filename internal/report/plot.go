package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// plot is a picture of samples. Lines have coordinates from 0 to plotScale in both
// directions. Everything else is placed in percent, so that texts keep their size when the
// browser stretches the picture.
type plot struct {
	Text   string // the description for users who cannot see the picture
	Lines  []plotLine
	Bands  []band
	X, Y   []axisTick
	Phases string // names of the phases with their times; "" in the plots after the first
}

const plotScale = 1000

type plotLine struct {
	Name   string // name of the series, quoted for the page
	Style  int    // number of the style, counted from 1
	Points string
	Speed  string // speeds in words
}

type band struct {
	X, Width string // place in percent
	Name     string // name of the phase; "" if there is no space for it
	Shaded   bool
}

type axisTick struct {
	At   string // place in percent
	Text string
}

// styles is the number of line styles that a reader can distinguish, in black and white
// too.
const styles = 6

// plots draws the samples. A plot has series of a similar speed: beside one that is farther times as fast,
// a line would be flat.
func (s *Samples) plots() (list []*plot) {
	const farther = 10
	if s == nil || len(s.ends) < leastPoints {
		return nil
	}
	speeds := map[int]float64{}
	for series := range s.names {
		if speed, ok := s.Speed(series); ok {
			speeds[series] = speed.Average
		}
	}
	for len(speeds) > 0 {
		slowest := slices.Min(slices.Collect(maps.Values(speeds)))
		var shown []int
		for series := range s.names {
			if v, ok := speeds[series]; ok && v < farther*slowest {
				shown = append(shown, series)
				delete(speeds, series)
			}
		}
		list = append(list, s.plot(shown))
	}
	for _, p := range list[min(len(list), 1):] {
		p.Phases = "" // they are the same
	}
	return list
}

// plot draws some of the series.
func (s *Samples) plot(shown []int) *plot {
	total := s.ends[len(s.ends)-1]
	p := &plot{}
	var texts []string
	drawn := &Samples{names: s.names, ends: slices.Clone(s.ends), bytes: slices.Clone(s.bytes)}
	drawn.join((len(s.ends) + drawnPoints - 1) / drawnPoints)
	highest, step := niceScale(drawn.highest(shown))
	for _, series := range shown {
		speed, _ := s.Speed(series)
		line := plotLine{Name: quote.Text(s.names[series]), Style: len(p.Lines)%styles + 1, Points: drawn.points(series, total, highest), Speed: speed.String()}
		p.Lines = append(p.Lines, line)
		texts = append(texts, line.Name+": "+line.Speed)
	}
	for v := 0.0; v <= highest*1.001; v += step {
		p.Y = append(p.Y, axisTick{percent(1 - v/highest), units.Rate(v)})
	}
	timeStep := niceTime(total)
	for t := time.Duration(0); t <= total; t += timeStep {
		p.X = append(p.X, axisTick{percent(t.Seconds() / total.Seconds()), clock(t, total)})
	}
	p.addBands(s.phases, total)
	p.Text = "Throughput from 0 to " + clock(total, total) + ", up to " + units.Rate(highest) + ". " + strings.Join(texts, ". ") + "."
	return p
}

// String describes a speed for people.
func (s Speed) String() string {
	text := units.Rate(s.Average) + " on average"
	if s.Slowest >= 0 {
		text += fmt.Sprintf(", %s in the slowest %s (at %s)", units.Rate(s.Slowest), seconds(s.Spell), units.Clock(s.At))
	}
	return text
}

func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return units.Clock(d)
}

// clock formats a moment of a run that needed total.
func clock(d, total time.Duration) string {
	if total < time.Minute {
		tenths := strconv.FormatFloat(d.Seconds(), 'f', 1, 64)
		if total < time.Second {
			tenths = strconv.FormatFloat(d.Seconds(), 'f', 2, 64)
		}
		return strings.TrimSuffix(tenths, ".0") + " s"
	}
	return units.Clock(d)
}

func percent(part float64) string { return fmt.Sprintf("%.2f%%", 100*part) }

// highest is the largest rate of some series.
func (s *Samples) highest(shown []int) (rate float64) {
	for i := range s.ends {
		for _, series := range shown {
			rate = max(rate, s.rate(series, i))
		}
	}
	return rate
}

// points are the corners of a line: each sample is a step as long as the sample.
func (s *Samples) points(series int, total time.Duration, highest float64) string {
	var sb strings.Builder
	for i, end := range s.ends {
		y := plotScale * (1 - s.rate(series, i)/highest)
		for _, t := range []time.Duration{s.begin(i), end} {
			fmt.Fprintf(&sb, "%.1f,%.1f ", plotScale*t.Seconds()/total.Seconds(), y)
		}
	}
	return strings.TrimSpace(sb.String())
}

// addBands adds the phases behind the lines.
func (p *plot) addBands(phases []phase, total time.Duration) {
	const leastNamed = 0.15 // fraction of the width: the longest name fits on a phone
	var texts []string
	for i, ph := range phases {
		end := total
		if i+1 < len(phases) {
			end = phases[i+1].from
		}
		width := (end - ph.from).Seconds() / total.Seconds()
		if width <= 0 {
			continue
		}
		b := band{X: percent(ph.from.Seconds() / total.Seconds()), Width: percent(width), Shaded: len(p.Bands)%2 == 1}
		if width >= leastNamed {
			b.Name = ph.name
		}
		p.Bands = append(p.Bands, b)
		texts = append(texts, ph.name+" from "+clock(ph.from, total)+" to "+clock(end, total))
	}
	p.Phases = strings.Join(texts, ", ")
}

// niceScale returns the end of an axis that holds v, and the step between its marks.
func niceScale(v float64) (highest, step float64) {
	const marks = 4
	raw := max(v, 1) / marks
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if step = m * unit; step >= raw {
			break
		}
	}
	return step * math.Ceil(max(v, 1)/step), step
}

// niceTime returns the step between the marks of an axis of time: at most six of them.
func niceTime(total time.Duration) time.Duration {
	const marks = 5
	step := time.Millisecond
	for _, s := range []time.Duration{10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000} {
		if step = s * time.Millisecond; total <= marks*step {
			return step
		}
	}
	for total > marks*step {
		step *= 2
	}
	return step
}
