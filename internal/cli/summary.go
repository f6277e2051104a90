package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// printSummary writes the account of a copy for people: short, aligned, and
// without lines for what did not happen. A failed write shows in the writer,
// see [checkedWriter].
func printSummary(w io.Writer, o *engine.Options, s *engine.Summary, r *reporter, result outcome) {
	var t table
	failures, mismatches := r.told()
	done := "copied"
	if s.DryRun {
		done = "would copy"
	}
	t.row(done, countsOf(s))
	if s.DryRun {
		t.row("size", progress.Size(s.Bytes))
	} else {
		t.row("size", sizeAndTime(s.Bytes, s.Elapsed))
	}
	if limit := limitOf(s); limit != nil {
		t.row("limited by", limited(limit, len(s.Targets) > 1))
	}
	if s.ResumedFiles > 0 || s.ResumedBytes > 0 {
		t.row("continued", resumed(s))
	}
	t.counts([]count{
		{"skipped", s.Skipped}, {"conflicts", s.Conflicts}, {"mismatches", mismatches},
		{"warnings", s.Warnings}, {"errors", failures},
	})
	for _, target := range s.Targets {
		if target.Lost != nil {
			t.row("given up", quote.Name(target.Path)+": "+quote.Text(target.Lost.Error()))
		}
		if o.Verify != engine.VerifyOff && !s.DryRun && target.Lost == nil {
			t.row("verified", readBack(&target, len(s.Targets) > 1))
		}
		for _, m := range target.Manifests {
			t.row("manifest", quote.Name(m.Path)+", "+lines(m))
			if m.SHA256 != "" {
				t.row("sha256", m.SHA256) // of the manifest itself; 76 columns
			}
		}
	}
	t.stopped(result)
	_, _ = io.WriteString(w, t.String())
}

// resumed says what an interrupted copy had done, of which one number at least
// is not 0: a file may have been continued in its middle, and files may be empty.
func resumed(s *engine.Summary) string {
	var done []string
	if s.ResumedFiles > 0 {
		done = append(done, plural(s.ResumedFiles, "file"))
	}
	if s.ResumedBytes > 0 {
		done = append(done, progress.Size(s.ResumedBytes))
	}
	return strings.Join(done, " and ") + " that an interrupted copy had done"
}

// lines says how many lines a manifest has, and how many of an earlier one are gone.
func lines(m catalog.Written) string {
	text := plural(int64(m.Lines), "line")
	if m.Dropped > 0 {
		text += ", " + grouped(int64(m.Dropped)) + " dropped (files that are gone or were replaced)"
	}
	return text
}

// readBack says how many files of a destination were verified, and through what.
func readBack(t *engine.TargetSummary, severals bool) string {
	text := plural(t.Verified, "file")
	switch {
	case t.Verified == 0:
	case t.Cached == 0:
		text += ", read back from the device"
	case t.Cached < t.Verified:
		text += ", " + grouped(t.Cached) + " of them verified through cache (no device to read)"
	default:
		text += ", verified through cache (no device to read)"
	}
	if severals {
		text = quote.Name(t.Path) + ": " + text
	}
	return text
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

// count is a row that is left out where there is nothing to count.
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

func (t *table) stopped(result outcome) {
	if result.signal != nil {
		t.row("stopped", "by "+signalName(result.signal)+", before the end")
	}
}

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

func sizeAndTime(bytes int64, elapsed time.Duration) string {
	text := progress.Size(bytes) + " in " + duration(elapsed)
	if bytes > 0 {
		text += ", " + progress.Rate(rate(bytes, elapsed))
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
