package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/usage"
)

// Widths of a chart, in columns.
const (
	minNameWidth = 10
	maxColumns   = math.MaxUint16 // the largest width that a terminal can report
	indentWidth  = 2              // columns for each level of drawn directories
)

// duChart draws each path with its largest entries. If the directory of an entry is drawn, too,
// the entry is indented below it, because its bytes are part of those of the directory. Entries
// on the same level are sorted by size, the largest first.
type duChart struct {
	results *results
	unit    unit
	top     int
	total   bool
	columns func() int
	colour  bool
	unicode bool // draw bars with block characters

	entries []usage.Entry // the present path, then entries below it
	drawn   bool          // true if at least one chart is drawn
}

func newDuChart(stdout io.Writer, r *results, flags *duFlags) *duChart {
	size, _ := terminal(stdout)
	columns := func() int { n, _ := size(); return n }
	if !isTerminal(stdout) {
		if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
			columns = func() int { return min(n, maxColumns) }
		}
	}
	c := &duChart{
		results: r,
		unit:    flags.unit,
		top:     flags.options.Top,
		total:   flags.total,
		columns: columns,
		colour:  coloured(stdout),
		unicode: isUTF8(),
	}
	if c.unit == (unit{}) {
		c.unit = unitHuman
	}
	return c
}

// isUTF8 reports whether the user's locale has the character set UTF-8. Without a locale it
// returns true on Windows, where Go converts UTF-8 for the console.
func isUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToUpper(os.Getenv(name)); locale != "" {
			return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
		}
	}
	return runtime.GOOS == "windows"
}

func (c *duChart) entry(e usage.Entry) {
	if e.Depth == 0 {
		c.draw()
	}
	c.entries = append(c.entries, e)
	if len(c.entries) > c.top {
		c.draw() // the chart is complete; reading the next path may take long
	}
}

func (c *duChart) finish(s *usage.Summary, complete bool) {
	c.draw()
	if c.total && complete {
		c.gap()
		c.results.Line(c.unit.format(s.Size) + "  total")
	}
}

// gap prints an empty line before each chart but the first.
func (c *duChart) gap() {
	if c.drawn {
		c.results.Line("")
	}
	c.drawn = true
}

// chartRow is an entry of a chart.
type chartRow struct {
	size  string
	share float64 // fraction of the size of the path, from 0 to 1
	level int     // number of drawn directories that contain the entry
	name  string  // path relative to the innermost of these directories
}

// draw draws the chart of the collected entries, if there are any, and discards them.
func (c *duChart) draw() {
	if len(c.entries) == 0 {
		return
	}
	c.gap()
	path := c.entries[0]
	rows := c.rows()
	c.entries = c.entries[:0]

	total := c.unit.format(path.Size)
	sizeWidth := len(total)
	for _, row := range rows {
		sizeWidth = max(sizeWidth, len(row.size))
	}
	space := c.columns() - sizeWidth - len("  100%  ") // columns for a bar and a name
	barWidth := max(space/3, 1)
	nameWidth := max(space-barWidth, minNameWidth)

	var sb strings.Builder
	fmt.Fprintf(&sb, "%*s  %s\n", sizeWidth, total, styled(c.colour, styleHeader, quote.Plain(path.Path)))
	for _, row := range rows {
		// The indent is at most half of the width, so that names stay readable.
		indent := min(row.level*indentWidth, nameWidth/2)
		fmt.Fprintf(&sb, "%*s  %3.0f%% %s %s%s\n", sizeWidth, row.size, row.share*100, c.bar(row.share, barWidth),
			strings.Repeat(" ", indent), quote.Cut(row.name, nameWidth-indent, c.unicode))
	}
	_, _ = io.WriteString(c.results, sb.String()) // results keeps the error
}

// rows returns the entries in the order of the chart.
func (c *duChart) rows() []chartRow {
	path := c.entries[0]
	below := make(map[string]*usage.Entry, len(c.entries)) // entries by their path relative to the first
	names := make([]string, 0, len(c.entries))
	for i, e := range c.entries[1:] {
		name := strings.TrimLeft(strings.TrimPrefix(e.Path, path.Path), "/")
		below[name] = &c.entries[1+i]
		names = append(names, name)
	}
	inside := map[string][]string{} // entries one level below each drawn directory, "" for the path
	for _, name := range names {
		dir := parentOf(name)
		for dir != "" && below[dir] == nil {
			dir = parentOf(dir)
		}
		inside[dir] = append(inside[dir], name)
	}
	rows := make([]chartRow, 0, len(names))
	var add func(dir string, level int)
	add = func(dir string, level int) {
		for _, name := range inside[dir] {
			e := below[name]
			row := chartRow{size: c.unit.format(e.Size), level: level}
			if path.Size > 0 {
				row.share = min(float64(e.Size)/float64(path.Size), 1)
			}
			short := strings.TrimPrefix(name[len(dir):], "/")
			if e.Kind == fsys.Directory {
				short += "/"
			}
			row.name = quote.Plain(short)
			rows = append(rows, row)
			add(name, level+1)
		}
	}
	add("", 0)
	return rows
}

// parentOf returns the part of name before the last slash, "" if there is none.
func parentOf(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// bar draws share as a bar, padded to width. A share above 0 is always visible.
func (c *duChart) bar(share float64, width int) string {
	full, rest := "#", []string{""}
	if c.unicode {
		full, rest = "█", []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}
	}
	steps := int(math.Round(share * float64(width*len(rest))))
	if share > 0 {
		steps = max(steps, 1)
	}
	bar := strings.Repeat(full, steps/len(rest)) + rest[steps%len(rest)]
	return styled(c.colour, styleBar, bar) + strings.Repeat(" ", width-uniseg.StringWidth(bar))
}
