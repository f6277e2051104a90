package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// printSummary writes the account of a run for people: short, aligned, and
// without lines for what did not happen. A failed write shows in the writer,
// see [checkedWriter].
func printSummary(w io.Writer, s *engine.Summary, failures int64, result outcome) {
	var t table
	done := "copied"
	if s.DryRun {
		done = "would copy"
	}
	t.row(done, countsOf(s))
	size := progress.Size(s.Bytes)
	if !s.DryRun {
		size += " in " + duration(s.Elapsed)
		if s.Bytes > 0 {
			size += ", " + progress.Rate(rate(s))
		}
	}
	t.row("size", size)
	for _, fact := range []struct {
		label string
		n     int64
	}{{"skipped", s.Skipped}, {"conflicts", s.Conflicts}, {"warnings", s.Warnings}, {"errors", failures}} {
		if fact.n > 0 {
			t.row(fact.label, grouped(fact.n))
		}
	}
	for _, target := range s.Targets {
		if target.Lost != nil {
			t.row("given up", quote.Name(target.Path)+": "+quote.Text(target.Lost.Error()))
		}
		for _, m := range target.Manifests {
			t.row("manifest", quote.Name(m.Path)+", "+plural(int64(m.Lines), "line"))
			t.row("sha256", m.SHA256) // of the manifest itself; 76 columns
		}
	}
	if result.signal != nil {
		t.row("stopped", "by "+signalName(result.signal)+", before the end")
	}
	_, _ = io.WriteString(w, t.String())
}

// countsOf lists what was copied; files are always named.
func countsOf(s *engine.Summary) string {
	counts := []string{plural(s.Files, "file")}
	for _, c := range []struct {
		n    int64
		noun string
	}{
		{s.Directories, "directory"},
		{s.Links, "symbolic link"},
		{s.HardLinks, "hard link"},
		{s.Specials, "special file"},
	} {
		if c.n > 0 {
			counts = append(counts, plural(c.n, c.noun))
		}
	}
	return strings.Join(counts, ", ")
}

// table aligns values behind their labels.
type table [][2]string

func (t *table) row(label, value string) { *t = append(*t, [2]string{label, value}) }

func (t *table) String() string {
	const width = len("would copy")
	var sb strings.Builder
	for _, row := range *t {
		fmt.Fprintf(&sb, "%-*s  %s\n", width, row[0], row[1])
	}
	return sb.String()
}

func plural(n int64, noun string) string {
	if n != 1 {
		if stem, ok := strings.CutSuffix(noun, "y"); ok {
			noun = stem + "ies"
		} else {
			noun += "s"
		}
	}
	return grouped(n) + " " + noun
}

// grouped writes a count with a comma before every three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func rate(s *engine.Summary) float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Bytes) / s.Elapsed.Seconds()
}

// duration writes seconds with three significant digits, and a clock from a
// minute on.
func duration(d time.Duration) string {
	switch seconds := d.Seconds(); {
	case seconds < 0.9995:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + " ms"
	case seconds < 9.995:
		return strconv.FormatFloat(seconds, 'f', 2, 64) + " s"
	case seconds < 59.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return progress.Clock(d)
}
