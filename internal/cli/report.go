package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// reporter turns events into messages, log lines and, for JSON, lists.
type reporter struct {
	screen   *printer
	log      *fileLog
	quiet    bool
	verbose  bool
	keep     bool // failures, conflicts and warnings, for the JSON report
	dryRun   bool
	severals bool // destinations, so that actions name theirs

	mu        sync.Mutex
	failures  []failureJSON
	conflicts []conflictJSON
	warnings  []warningJSON
	errors    int64 // failures and lost destinations, kept or not
}

// event is engine.Options.Report.
func (r *reporter) event(e engine.Event) {
	switch e.Kind {
	case engine.EventCopied, engine.EventSkipped:
		r.action(e)
	case engine.EventConflict:
		r.conflict(e)
	case engine.EventWarning:
		r.warning(e)
	case engine.EventTargetLost:
		r.targetLost(e)
	case engine.EventFailed:
		if f, ok := errors.AsType[*failure.FileError](e.Err); ok {
			r.failure(f.Path, f.Target, f.Stage, f)
		} else {
			r.failure(e.Path, e.Target, "", e.Err)
		}
	}
}

func (r *reporter) action(e engine.Event) {
	r.log.action(e)
	if !r.verbose {
		return
	}
	verb, changes := e.Action, e.Kind == engine.EventCopied
	if verb == "metadata" {
		verb, changes = "update metadata of", true
	}
	line := verb + " " + quote.Name(pathOrDot(e.Path))
	if r.dryRun && changes {
		line = "would " + line
	}
	if r.severals && e.Target != "" {
		line += " (in " + quote.Name(e.Target) + ")"
	}
	r.screen.Line(line)
}

func (r *reporter) conflict(e engine.Event) {
	text := "left alone"
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	hint := hintText(e.Hint)
	r.screen.Line("sealift: " + place(e.Path, e.Target) + ": " + quote.Text(text) + " (" + quote.Text(hint) + ")")
	r.log.conflict(e, hint)
	if r.keep {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.conflicts = append(r.conflicts, conflictJSON{newNameJSON(pathOrDot(e.Path)), e.Target, errorText(e.Err), e.Hint})
	}
}

func hintText(hint string) string {
	if hint == "" {
		return "no policy replaces it; move it away"
	}
	return "--overwrite-policy=" + hint + " would replace it"
}

func (r *reporter) warning(e engine.Event) {
	r.log.warning(e)
	if !r.quiet {
		line := "sealift: warning: "
		if e.Path != "" || e.Target != "" {
			line += place(e.Path, e.Target) + ": "
		}
		r.screen.Line(line + quote.Text(errorText(e.Err)))
	}
	if r.keep {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.warnings = append(r.warnings, warningJSON{newNameJSON(e.Path), e.Target, errorText(e.Err)})
	}
}

func (r *reporter) targetLost(e engine.Event) {
	r.log.targetLost(e)
	at := ""
	if e.Path != "" {
		at = " at " + quote.Name(e.Path)
	}
	r.screen.Line("sealift: " + quote.Name(e.Target) + ": destination given up" + at + ": " + quote.Text(errorText(e.Err)))
	r.record(e.Path, e.Target, "destination", errorText(e.Err))
}

// failure tells of something that failed; path and target may be empty. A
// FileError quotes itself.
func (r *reporter) failure(path, target string, stage failure.Stage, err error) {
	r.log.failure(path, target, stage, err)
	text := errorText(err)
	if f, ok := errors.AsType[*failure.FileError](err); ok {
		r.screen.Line("sealift: " + text)
		text = errorText(f.Err)
	} else {
		line := "sealift: "
		if path != "" || target != "" {
			line += place(path, target) + ": "
		}
		r.screen.Line(line + quote.Text(text))
	}
	r.record(path, target, stage, text)
}

// record counts a failure and keeps it for the JSON report, so that the number
// is always that of the list.
func (r *reporter) record(path, target string, stage failure.Stage, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors++
	if r.keep {
		r.failures = append(r.failures, failureJSON{newNameJSON(pathOrDot(path)), target, string(stage), text})
	}
}

// told returns how many failures have been told.
func (r *reporter) told() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errors
}

// finish tells how the run as a whole ended, and what that means.
func (r *reporter) finish(s *engine.Summary, err error) outcome {
	var o outcome
	if s != nil {
		o.failed = s.Errors > 0 // each of them was told
		o.conflicts = s.Conflicts > 0
	}
	o.failed = o.failed || r.told() > 0
	switch interrupt, ok := errors.AsType[Interrupt](err); {
	case ok:
		o.signal = interrupt.Signal
		line := "sealift: " + interrupt.Error()
		if !r.dryRun {
			line += "; run the same command again to finish"
		}
		r.screen.Line(line)
	case err != nil && errors.Is(err, context.Canceled) && s != nil:
		o.failed = true // a caller that is not a signal gave up
		r.screen.Line("sealift: stopped")
	case err != nil:
		o.failed = true
		r.failure("", "", "", err)
	}
	r.log.finished(s, r.told(), o)
	return o
}

// place names an entry, and the destination if it concerns one.
func place(path, target string) string {
	if target == "" {
		return quote.Name(pathOrDot(path))
	}
	if path == "" {
		return quote.Name(target)
	}
	return quote.Name(path) + " (to " + quote.Name(target) + ")"
}

func pathOrDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
