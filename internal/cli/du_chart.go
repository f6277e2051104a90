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
	maxColumns   = math.MaxUint16 // that a terminal can say it has
	indentWidth  = 2              // for what is inside the directory above
)

// duChart draws each path and its largest entries. Entries inside a directory that is
// drawn itself are below it, indented, so that no bar seems to add its bytes to those of
// another. Among siblings the largest is first.
type duChart struct {
	results *results
	unit    unit
	top     int
	total   bool
	columns func() int
	colour  bool
	unicode bool // block characters can be shown

	entries []usage.Entry // of the present path, which comes first
	drawn   bool          // some chart
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
		unicode: speaksUTF8(),
	}
	if c.unit == (unit{}) {
		c.unit = unitHuman
	}
	return c
}

// speaksUTF8 reports whether the user's locale is one of UTF-8, which on Windows
// Go translates for the console.
func speaksUTF8() bool {
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
		c.draw() // no more can come, and the next path may take its time
	}
}

func (c *duChart) finish(s *usage.Summary, complete bool) {
	c.draw()
	if c.total && complete {
		c.gap()
		c.results.Line(c.unit.format(s.Bytes) + "  total")
	}
}

// gap separates a chart from the one above.
func (c *duChart) gap() {
	if c.drawn {
		c.results.Line("")
	}
	c.drawn = true
}

// chartRow is an entry of a chart.
type chartRow struct {
	size  string
	share float64 // of the path, 0 to 1
	level int     // how many directories it is inside of that are drawn, too
	name  string  // relative to the innermost of these
}

// draw draws the entries so far, if there are any.
func (c *duChart) draw() {
	if len(c.entries) == 0 {
		return
	}
	c.gap()
	path := c.entries[0]
	rows := c.rows()
	c.entries = c.entries[:0]

	total := c.unit.format(path.Bytes)
	sizeWidth := len(total)
	for _, row := range rows {
		sizeWidth = max(sizeWidth, len(row.size))
	}
	space := c.columns() - sizeWidth - len("  100%  ") // for a bar and a name
	barWidth := max(space/3, 1)
	nameWidth := max(space-barWidth, minNameWidth)

	var sb strings.Builder
	fmt.Fprintf(&sb, "%*s  %s\n", sizeWidth, total, styled(c.colour, styleHeader, quote.Plain(path.Path)))
	for _, row := range rows {
		// Indented by no more than half, names can still be read.
		indent := min(row.level*indentWidth, nameWidth/2)
		fmt.Fprintf(&sb, "%*s  %3.0f%% %s %s%s\n", sizeWidth, row.size, row.share*100, c.bar(row.share, barWidth),
			strings.Repeat(" ", indent), quote.Cut(row.name, nameWidth-indent, c.unicode))
	}
	_, _ = io.WriteString(c.results, sb.String()) // which remembers the error
}

// rows puts the entries into the order of the chart.
func (c *duChart) rows() []chartRow {
	path := c.entries[0]
	below := make(map[string]*usage.Entry, len(c.entries)) // by their path relative to the first
	names := make([]string, 0, len(c.entries))
	for i, e := range c.entries[1:] {
		name := strings.TrimLeft(strings.TrimPrefix(e.Path, path.Path), "/")
		below[name] = &c.entries[1+i]
		names = append(names, name)
	}
	inside := map[string][]string{} // what is drawn right below each, "" for the path
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
			row := chartRow{size: c.unit.format(e.Bytes), level: level}
			if path.Bytes > 0 {
				row.share = min(float64(e.Bytes)/float64(path.Bytes), 1)
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

// parentOf returns what is before the last slash, "" if there is none.
func parentOf(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// bar draws a share of a width, padded to it. Every share above zero can be seen.
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
