package cli

import (
	"bufio"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
)

// copyReporter prints and logs the events of a copy, and its summary.
type copyReporter struct {
	*reporter
	flags    *copyFlags
	listing  listing
	counters *counters.Set // counters of the run

	volumes   volumes // volumes of the destinations
	oneDevice int64   // number of warnings of warnOneDevice
	again     string  // the command that completes the copy
}

// sameCommand completes a copy after its causes of failure were removed.
const sameCommand = "run the same command again"

// newCopyReporter opens the log and the HTML report of a copy with the options o, and returns
// its reporter.
func newCopyReporter(cmd *cobra.Command, flags *copyFlags, o *engine.Options) (*copyReporter, error) {
	base, err := newReporter(cmd, &flags.outputFlags, flags.usedFiles(o))
	if err != nil {
		return nil, err
	}
	r := &copyReporter{reporter: base, flags: flags, listing: listing{memory: listingMemory}, volumes: volumes{}, again: sameCommand}
	if r.page != nil {
		r.page.algorithms, o.Each = o.Hashes, r.each
	}
	for _, t := range o.Targets {
		r.volumes[t] = volumeOf(o.FS, t)
	}
	return r, nil
}

// begin sets the reporter as that of o, and writes the first lines of the log.
func (r *copyReporter) begin(o *engine.Options) {
	o.Report = r.event
	r.log.line(slog.LevelInfo, "start", "", "", "source", loggedName(o.Source), "dry_run", o.DryRun)
	for _, t := range o.Targets {
		r.log.line(slog.LevelInfo, "destination", "", t)
	}
}

// event is engine.Options.Report.
func (r *copyReporter) event(e event.Event) {
	r.list(e)
	switch e.Kind {
	case event.Copied, event.Skipped:
		r.logAction(e)
	case event.Conflict:
		r.conflict(e)
	case event.Warning:
		r.warning(e.Path, e.Target, e.Err)
	case event.DestinationLost:
		r.targetLost(e)
	case event.Failed:
		r.markEntry(e, "failed")
		r.failure(e.Path, e.Target, e.Err)
	case event.Mismatch:
		r.markEntry(e, "mismatch")
		r.mismatch(e.Path, e.Target, e.Err)
	}
}

func (r *copyReporter) conflict(e event.Event) {
	text, hint := "left alone", "no policy replaces it; move it away"
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	switch {
	case e.Next != "":
		hint = e.Next
	case r.flags.options.Policy == policy.Protect:
		hint = "copy this source into another directory"
	case e.Hint != "":
		hint = "--overwrite-policy=" + e.Hint + " would replace it"
	}
	text = quote.Text(text) + " (" + quote.Text(hint) + ")"
	r.printEqual(message{target: e.Target, text: text}, place(e.Path, e.Target)+": "+text)
	r.page.problem(report.Problem{Kind: "conflict", Path: e.Path, Target: e.Target, Cause: text})
	r.log.line(slog.LevelWarn, "conflict", e.Path, e.Target, "error", loggedText(errorText(e.Err)), "hint", loggedText(hint))
	r.keep(func() {
		r.mu.conflicts = append(r.mu.conflicts, conflictJSON{newNameJSON(pathOrDot(e.Path)), e.Target, errorText(e.Err), e.Hint})
	})
}

func (r *copyReporter) targetLost(e event.Event) {
	r.log.line(slog.LevelError, "destination dropped", e.Path, e.Target, "error", loggedText(errorText(e.Err)))
	at := ""
	if e.Path != "" {
		at = " at " + quote.Name(e.Path)
	}
	r.print(quote.Name(e.Target) + ": destination dropped" + at + ": " + quotedError(e.Err))
	r.record(&r.mu.errors, r.newFailureJSON("destination_dropped", e.Path, e.Target, "destination", errorText(e.Err)))
}

// outcomeOfCopy returns the outcome that the summary shows. Each failure is already reported.
func outcomeOfCopy(s *engine.Summary) outcome {
	return outcome{failed: s.Errors > 0, mismatched: s.Mismatches > 0, conflicts: s.Conflicts > 0}
}

// finish ends the log and prints the summary.
func (r *copyReporter) finish(stdout io.Writer, s *engine.Summary, result outcome) outcome {
	result = result.or(outcomeOfCopy(s))
	s.Warnings += r.oneDevice
	if s.Total >= 0 && result.signal == nil {
		s.Warnings += r.flags.selection.warnUnmet(r.reporter, nil, s.Total == 0 && s.LeftOut > 0)
	}
	if err := r.printListing(stdout); err != nil {
		r.failure("", "", err)
		result.failed = true
	}
	r.log.logLimit(s)
	result = r.publish(stdout, result, func(result outcome) document { return newCopyOutcome(s, r, result) })
	if r.flags.debug {
		for _, line := range debugLines(s, r.counters) {
			r.screen.Line(line)
		}
	}
	return result
}

// printListing prints the listing on standard output. With --json, it prints it on standard
// error.
func (r *copyReporter) printListing(stdout io.Writer) error {
	if r.json {
		return r.listing.close(r.screen.Line)
	}
	w := bufio.NewWriter(stdout) // execute reports write errors, see checkedWriter
	err := r.listing.close(func(line string) { _, _ = w.WriteString(line + "\n") })
	_ = w.Flush()
	return err
}
