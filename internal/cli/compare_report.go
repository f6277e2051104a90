package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/failure"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/units"
)

// comparer prints and logs the results of a comparison.
type comparer struct {
	*reporter
	options *compare.Options
	ended   bool // true if the run ended before everything was compared

	differences []differenceJSON // list of differences, guarded by reporter.mu
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
	tree := c.options.Trees[e.Trees[0]]
	c.log.line(slog.LevelError, title, e.Path, tree, "stage", string(e.Stage), "error", loggedText(errorText(e.Err)))
	c.record(n, c.newFailureJSON(title, e.Path, tree, e.Stage, errorText(e.Err)))
}

// place is the path of an entry in its tree.
func (c *comparer) place(e compare.Event) string {
	tree := c.options.Trees[e.Trees[0]]
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

// compared is compare.Options.Each.
func (c *comparer) compared(e *compare.Entry) {
	f := &report.File{Path: e.Path, Kind: kindName(e.Kind), Size: e.Size, Mtime: e.Mtime.Sec, Results: []string{"equal"}}
	for _, event := range e.Events {
		switch event.Verdict {
		case compare.Equal:
		case compare.Unreadable:
			c.page.mark(e.Path, "unreadable in "+letters(event.Trees))
		default:
			verdict, _ := verdictText(event)
			if event.Verdict != compare.OnlyIn && len(c.options.Trees) > 2 {
				verdict += " in " + letters(event.Trees)
			}
			c.page.mark(e.Path, verdict)
		}
	}
	c.page.file(f)
}

// reportDifference adds a difference to the report.
func (c *comparer) reportDifference(e compare.Event) {
	if e.Verdict == compare.Equal {
		return
	}
	verdict, reason := verdictText(e)
	c.page.problem(report.Problem{Kind: "difference", Path: e.Path, Cause: verdict, Note: reason})
}

// finish adds the counts of the summary to the exit code, and publishes the outcome.
func (c *comparer) finish(stdout io.Writer, s *compare.Summary, result outcome) outcome {
	result = result.or(outcome{failed: s.Unreadable > 0, mismatched: s.Incomplete > 0 || s.Differences() > 0})
	return c.publish(stdout, result, func(result outcome) document { return c.newOutcome(s, result) })
}

// compareVerdict is the first line of the summary.
func (c *comparer) compareVerdict(s *compare.Summary, result outcome) verdict {
	o := c.options
	all, others := "A and B", "B has"
	switch last := len(o.Trees) - 1; {
	case last == 2:
		all, others = "A, B and C", "B and C have"
	case last > 2:
		all, others = "A to "+compare.Letter(last), "B to "+compare.Letter(last)+" have"
	}
	v := c.verdict(words{name: "equal"}, words{"not_equal", "NOT EQUAL"})
	if s.Differences() > 0 {
		v.causes.Add(outcomes.Differs, "")
	}
	switch n := s.Differences(); n {
	case 0:
	case 1:
		v.add("1 entry differs or is missing")
	default:
		v.add(plural(n, "entry") + " differ or are missing")
	}
	if s.Incomplete > 0 {
		v.add("a copy is incomplete")
	}
	if v.reasons == nil {
		v.bad = words{"not_compared", "NOT COMPARED COMPLETELY"}
	}
	v.addCountOf(s.Unreadable, "entry", " could not be compared")
	if c.ended && result.signal == nil {
		v.add("stopped before the end")
	}
	switch {
	case o.Quick && o.OneWay:
		v.good.text = "equal in size and time: " + others + " everything that is in A, but no content was read"
	case o.Quick:
		v.good.text = "equal in size and time: " + all + ", but no content was read"
	case o.OneWay:
		v.good.text = "equal: " + others + " everything that is in A"
	default:
		v.good.text = "equal: " + all
	}
	return v
}
