package cli

import (
	"io"
	"log/slog"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// copyReporter reports the events of a copy, and its end.
type copyReporter struct {
	reporter
	flags   *copyFlags
	several bool // destinations, so that actions name theirs
}

// event is engine.Options.Report.
func (r *copyReporter) event(e engine.Event) {
	switch e.Kind {
	case engine.EventCopied, engine.EventSkipped:
		r.action(e)
	case engine.EventConflict:
		r.conflict(e)
	case engine.EventWarning:
		r.warning(e.Path, e.Target, e.Err)
	case engine.EventTargetLost:
		r.targetLost(e)
	case engine.EventFailed:
		r.failure(e.Path, e.Target, e.Err)
	case engine.EventMismatch:
		r.mismatch(e.Path, e.Target, e.Err)
	}
}

func (r *copyReporter) action(e engine.Event) {
	r.log.line(slog.LevelInfo, e.Action, e.Path, e.Target, "bytes", e.Bytes)
	if !r.flags.verbose {
		return
	}
	verb, changes := e.Action, e.Kind == engine.EventCopied
	if verb == "metadata" {
		verb, changes = "update metadata of", true
	}
	line := verb + " " + quote.Name(pathOrDot(e.Path))
	if r.flags.options.DryRun && changes {
		line = "would " + line
	}
	if r.several && e.Target != "" {
		line += " (in " + quote.Name(e.Target) + ")"
	}
	r.screen.Line(line)
}

func (r *copyReporter) conflict(e engine.Event) {
	text, hint := "left alone", "no policy replaces it; move it away"
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		hint = "--overwrite-policy=" + e.Hint + " would replace it"
	}
	r.print(place(e.Path, e.Target) + ": " + quote.Text(text) + " (" + quote.Text(hint) + ")")
	r.log.line(slog.LevelWarn, "conflict", e.Path, e.Target, "error", quotedError(e.Err), "hint", quote.Text(hint))
	r.keep(func() {
		r.mu.conflicts = append(r.mu.conflicts, conflictJSON{newNameJSON(pathOrDot(e.Path)), e.Target, errorText(e.Err), e.Hint})
	})
}

func (r *copyReporter) targetLost(e engine.Event) {
	r.log.line(slog.LevelError, "destination given up", e.Path, e.Target, "error", quotedError(e.Err))
	at := ""
	if e.Path != "" {
		at = " at " + quote.Name(e.Path)
	}
	r.print(quote.Name(e.Target) + ": destination given up" + at + ": " + quotedError(e.Err))
	r.record(&r.mu.errors, newFailureJSON(e.Path, e.Target, "destination", errorText(e.Err)))
}

// logStart begins the log.
func (r *copyReporter) logStart(o *engine.Options) {
	r.log.line(slog.LevelInfo, "start", "", "", "source", quote.Plain(o.Source), "dry_run", o.DryRun)
	for _, t := range o.Targets {
		r.log.line(slog.LevelInfo, "destination", "", t)
	}
}

// finish ends the log and prints the summary.
func (r *copyReporter) finish(stdout io.Writer, s *engine.Summary, result outcome) outcome {
	result = result.or(outcome{failed: s.Errors > 0, mismatched: s.Mismatches > 0, conflicts: s.Conflicts > 0}) // each was reported
	failures, mismatches := r.counts()
	r.log.stages(s)
	r.log.line(slog.LevelInfo, "finish", "", "", "exit_code", result.code(), "files", s.Files, "bytes", s.Bytes, "skipped", s.Skipped,
		"conflicts", s.Conflicts, "mismatches", mismatches, "errors", failures, "elapsed", s.Elapsed)
	if err := r.log.close(); err != nil {
		r.failure("", "", logError(err))
		result.failed = true
	}
	switch {
	case r.flags.json:
		printJSON(stdout, newCopyJSON(s, r, result))
	case !r.flags.quiet:
		printCopySummary(stdout, &r.flags.options, s, r, result)
	}
	if r.flags.debug {
		for _, line := range stageTable(s) {
			r.screen.Line(line)
		}
	}
	return result
}
