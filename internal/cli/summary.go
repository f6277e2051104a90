package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/units"
)

// table is the table of a summary: labels and values in two aligned columns.
type table [][2]string

func (t *table) row(label, value string) { *t = append(*t, [2]string{label, value}) }

// count is a row that is left out if n is 0.
type count struct {
	label string
	n     int64
}

func (t *table) counts(counts []count) {
	for _, c := range counts {
		if c.n > 0 {
			t.row(c.label, grouped(c.n))
		}
	}
}

// countOf adds a row such as "2 lines, by filters", unless n is 0. rest follows the noun.
func (t *table) countOf(label string, n int64, noun, rest string) {
	if n > 0 {
		t.row(label, plural(n, noun)+rest)
	}
}

// print prints the table. The [checkedWriter] of the command keeps a write error.
func (t *table) print(w io.Writer) {
	const width = len("would copy")
	var sb strings.Builder
	for _, row := range *t {
		fmt.Fprintf(&sb, "%-*s  %s\n", width, row[0], row[1])
	}
	_, _ = io.WriteString(w, sb.String())
}

// lines returns the number of lines of a manifest, and how many of the previous one were dropped.
func lines(m record.Written) string {
	text := plural(int64(m.Lines), "line")
	if m.Dropped > 0 {
		text += ", " + grouped(int64(m.Dropped)) + " dropped (files that are gone or were replaced)"
	}
	return text
}

func plural(n int64, noun string) string { return units.Plural(n, noun) }

func grouped(n int64) string { return units.Grouped(n) }

func sizeAndTime(bytes int64, elapsed time.Duration) string {
	text := units.Size(bytes) + " in " + duration(elapsed)
	if bytes > 0 {
		text += ", " + units.Rate(rate(bytes, elapsed))
	}
	return text
}

// inCounts returns the number of files and, with their nouns, the other counts that are not 0:
// "2 files, 1 directory".
func inCounts(files int64, others []count) string {
	text := plural(files, "file")
	for _, c := range others {
		if c.n > 0 {
			text += ", " + plural(c.n, c.label)
		}
	}
	return text
}

// rate is bytes per second.
func rate(bytes int64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(bytes) / elapsed.Seconds()
}

// duration returns a time with three significant digits, such as "1.25 s"; from one minute on,
// it returns hours, minutes and seconds.
func duration(d time.Duration) string {
	switch seconds := d.Seconds(); {
	case seconds < 0.9995:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + " ms"
	case seconds < 9.995:
		return strconv.FormatFloat(seconds, 'f', 2, 64) + " s"
	case seconds < 59.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return units.Clock(d)
}
