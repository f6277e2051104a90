package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// comparer prints and logs the results of a comparison.
type comparer struct {
	*reporter
	trees []string // as the user named them
	ended bool     // the run ended before everything was compared

	differences []differenceJSON // guarded by reporter.mu
}

// event is compare.Options.Report.
func (c *comparer) event(e compare.Event) {
	switch e.Verdict {
	case compare.Unreadable:
		c.print(quote.Name(c.place(e)) + ": " + string(e.Stage) + ": " + quotedError(e.Err))
		c.failed(&c.mu.errors, "failed", e)
	case compare.Incomplete:
		c.print(quote.Name(c.place(e)) + ": " + quotedError(e.Err))
		e.Stage = failure.StageCheck
		c.failed(&c.mu.mismatches, "incomplete", e)
	default:
		c.difference(e)
	}
}

// failed logs and counts an event that is not a difference, but after which the trees cannot be
// called equal: an unreadable entry or an incomplete copy.
func (c *comparer) failed(n *int64, title string, e compare.Event) {
	tree := c.trees[e.Trees[0]]
	c.log.line(slog.LevelError, title, e.Path, "", "tree", loggedName(tree), "stage", string(e.Stage), "error", loggedText(errorText(e.Err)))
	c.record(n, newFailureJSON(e.Path, tree, e.Stage, errorText(e.Err)))
}

// place is the path of an entry in its tree.
func (c *comparer) place(e compare.Event) string {
	tree := c.trees[e.Trees[0]]
	if e.Path == "" {
		return tree
	}
	return strings.TrimRight(tree, "/") + "/" + e.Path
}

// letters joins the letters of trees: "A", or "A, C".
func letters(trees []int) string { return strings.Join(letterList(trees), ", ") }

// difference prints one line about an entry: the verdict, the path and the reason.
func (c *comparer) difference(e compare.Event) {
	verdict, reason := verdictText(e)
	c.reportDifference(e)
	if e.Verdict != compare.Equal {
		c.logDifference(e, verdict, reason)
	}
	line := fmt.Sprintf("%-16s  %s", verdict, quote.Plain(e.Path))
	if reason != "" {
		line += " (" + quote.Text(reason) + ")"
	}
	if c.json {
		c.screen.Line(line)
	} else {
		c.results.Line(line)
	}
	if e.Verdict != compare.Equal {
		c.keep(func() { c.differences = append(c.differences, newDifference(e)) })
	}
}

func (c *comparer) logDifference(e compare.Event, verdict, reason string) {
	attrs := []any{"reason", loggedText(reason)}
	if e.Verdict == compare.OnlyIn {
		verdict = "only in"
		attrs = append(attrs, "trees", letterList(e.Trees))
	}
	c.log.line(slog.LevelWarn, verdict, e.Path, "", attrs...)
}

func verdictText(e compare.Event) (verdict, reason string) {
	switch e.Verdict {
	case compare.Equal:
		return "equal", ""
	case compare.Differs:
		return "differs", e.Reason
	case compare.TypeDiffers:
		return "type differs", e.Reason
	case compare.MetadataDiffers:
		return "metadata differs", e.Reason
	}
	switch {
	case e.Whole && e.Files == 0:
		reason = "a directory without files"
	case e.Whole:
		reason = plural(e.Files, "file") + ", " + units.Size(e.Bytes)
	case e.Bytes > 0:
		reason = units.Size(e.Bytes)
	}
	return "only in " + letters(e.Trees), reason
}

// finish adds the counts of the summary to the outcome, writes the report, and ends the log.
func (c *comparer) finish(o *compare.Options, s *compare.Summary, result outcome) outcome {
	result = result.or(outcome{failed: s.Unreadable > 0, mismatched: s.Incomplete > 0 || s.Differences() > 0})
	result = c.writeReport(o, s, result)
	failures, _ := c.counts()
	return c.endLog(result, "files", s.Files, "bytes", s.Bytes, "differences", s.Differences(), "errors", failures, "elapsed", s.Elapsed)
}

// printCompareSummary prints the summary of a comparison.
func printCompareSummary(w io.Writer, o *compare.Options, s *compare.Summary, c *comparer) {
	var t table
	for i, tree := range o.Trees {
		t.row(compare.Letter(i), quote.Name(tree))
	}
	compared := []string{plural(s.Files, "file")}
	if s.Directories > 0 {
		compared = append(compared, plural(s.Directories, "directory"))
	}
	if s.Others > 0 {
		compared = append(compared, plural(s.Others, "other entry"))
	}
	t.row("compared", strings.Join(compared, ", "))
	if o.Quick {
		t.row("content", "not read, because of --quick")
		t.row("time", duration(s.Elapsed))
	} else {
		t.row("size", sizeAndTime(s.Bytes, s.Elapsed))
	}
	t.counts([]count{{"differ", s.Differ}, {"types", s.TypeDiffers}, {"metadata", s.MetadataDiffers}})
	for _, only := range s.Only {
		if len(o.Trees) == 2 {
			t.row("only in "+letters(only.Trees), onlyText(only))
		} else {
			t.row("only in", letters(only.Trees)+": "+onlyText(only))
		}
	}
	t.counts([]count{{"unreadable", s.Unreadable}, {"incomplete", s.Incomplete}})
	if s.LeftOut > 0 {
		t.row("left out", entries(s.LeftOut)+" of A, by filters")
	}
	if s.Own > 0 {
		t.row("skipped", entries(s.Own)+" that A lacks: manifests and journals of Sealift")
	}
	if s.Cached > 0 && o.Cache != pipe.CacheKeep {
		t.row("cached", plural(s.Cached, "file")+", perhaps read from memory and not from the device")
	}
	if o.Verbose || s.Differences() > 0 {
		_, _ = io.WriteString(w, "\n") // separates the summary from the list
	}
	v := compareVerdict(o, s, c.ended)
	v.print(w)
	t.print(w)
}

func entries(n int64) string { return plural(n, "entry") }

func onlyText(o compare.Only) string {
	var parts []string
	if o.Files > 0 {
		parts = append(parts, plural(o.Files, "file"), units.Size(o.Bytes))
	}
	if o.Others > 0 {
		parts = append(parts, plural(o.Others, "other entry"))
	}
	return strings.Join(parts, ", ")
}

// compareVerdict is the first line of the summary. ended is true if the run ended before
// everything was compared.
func compareVerdict(o *compare.Options, s *compare.Summary, ended bool) verdict {
	others := "B"
	if n := len(o.Trees); n > 2 {
		others = "B to " + compare.Letter(n-1)
	}
	v := verdict{bad: "NOT EQUAL"}
	switch n := s.Differences(); n {
	case 0:
	case 1:
		v.add("1 entry differs or is missing")
	default:
		v.add(entries(n) + " differ or are missing")
	}
	if s.Incomplete > 0 {
		v.add("a copy is incomplete")
	}
	if v.reasons == nil {
		v.bad = "NOT COMPARED COMPLETELY"
	}
	if s.Unreadable > 0 {
		v.add(entries(s.Unreadable) + " could not be compared")
	}
	if ended {
		v.add("stopped before the end")
	}
	switch {
	case o.Quick && o.OneWay:
		v.good = "equal in size and time: " + others + " has everything that is in A, but no content was read"
	case o.Quick:
		v.good = "equal in size and time: A and " + others + ", but no content was read"
	case o.OneWay:
		v.good = "equal: " + others + " has everything that is in A"
	default:
		v.good = "equal: A and " + others
	}
	return v
}
