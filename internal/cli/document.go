package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/report"
)

// document is the outcome of a command: one struct, which its JSON tags make the output of --json.
// Everything else that the command prints about its result is made from it.
type document interface {
	summary() summary
	logged() []any // attributes of the last line of the log
}

// summary is the part of an outcome that people read, in the text and on the page of --report.
type summary struct {
	*verdict
	elapsed time.Duration
	gap     bool // an empty line separates the text from the lines before it
	rows    outcomes.Rows
	trees   []treeRows
	shards  []summary // one for each shard of run, in place of the other fields; nil for other commands

	elsewhere string             // where the files are listed that the page has no space for; may be ""
	more      func(*report.Page) // adds what only the page of this command has; may be nil
}

// treeRows are the rows about a destination or another tree.
type treeRows struct {
	path string // the destination, which the text names if there are several; "" if rows are for the page only
	rows outcomes.Rows
}

// publish writes the outcome of a command to the report, the metrics and the log, and prints it. build makes the
// document. publish calls it after each step that may fail, so that the document has all failures.
func (r *reporter) publish(stdout io.Writer, result outcome, build func(outcome) document) outcome {
	result = r.page.write(r, result, func(result outcome) summary { return build(result).summary() })
	result = r.metrics.publish(r, result, build)
	before := result.code()
	result = r.endLog(result, build(result).logged()...)
	if result.code() != before {
		result = r.metrics.publish(r, result, build)
	}
	d := build(result)
	switch {
	case r.json:
		printJSON(stdout, d)
	case !r.quiet && !r.noSummary:
		d.summary().print(stdout)
	}
	return result
}

// endJSON has the last fields of the JSON output of every command.
type endJSON struct {
	Failures []failureJSON `json:"failures"`  // Everything that failed or does not match.
	Warnings []warningJSON `json:"warnings"`  // Warnings: the run did less than requested, or a filter rule matched nothing.
	ExitCode int           `json:"exit_code"` // The exit code of the program.
}

// ending returns the last fields of a command that ends now.
func (r *reporter) ending(result outcome) endJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	return endJSON{list(r.mu.failures), list(r.mu.warnings), result.code()}
}

// print prints the summary. The [checkedWriter] of the command keeps a write error.
func (s summary) print(w io.Writer) {
	for _, shard := range s.shards {
		shard.print(w)
	}
	if s.verdict == nil {
		return
	}
	if s.gap {
		_, _ = io.WriteString(w, "\n")
	}
	s.verdict.print(w)
	printRows(w, s.rows)
	named := 0
	for _, t := range s.trees {
		if t.path != "" {
			named++
		}
	}
	for _, t := range s.trees {
		rows := t.rows
		if named > 1 && t.path != "" {
			_, _ = io.WriteString(w, "\n")
			rows = append(outcomes.Rows{{Label: "to", Values: []outcomes.Value{outcomes.Name(t.path)}}}, rows...)
		}
		printRows(w, rows)
	}
}

// printRows prints rows: labels and values in two aligned columns.
func printRows(w io.Writer, rows outcomes.Rows) {
	const width = len("would copy")
	var sb strings.Builder
	for _, row := range rows {
		if row.Shown != outcomes.PageOnly {
			fmt.Fprintf(&sb, "%-*s  %s\n", width, row.Label, row.Text())
		}
	}
	_, _ = io.WriteString(w, sb.String())
}

// fill adds the summary to a page.
func (s summary) fill(page *report.Page) {
	page.Verdict, page.Good, page.Totals, page.Elsewhere = s.text(), page.Good && s.isGood(), s.rows, s.elsewhere
	first := len(page.Trees) - len(s.trees) // without a source that has no rows
	for i, t := range s.trees {
		if at := first + i; at >= 0 {
			page.Trees[at].Facts = append(t.rows, page.Trees[at].Facts...)
		}
	}
	if s.more != nil {
		s.more(page)
	}
}
