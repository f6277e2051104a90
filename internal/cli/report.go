package cli

import (
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// reporter tells what the engine reports.
type reporter struct {
	teller
	verbose  bool
	dryRun   bool
	severals bool // destinations, so that actions name theirs

	conflicts []conflictJSON // guarded by teller.mu
}

// event is engine.Options.Report.
func (r *reporter) event(e engine.Event) {
	switch e.Kind {
	case engine.EventCopied, engine.EventSkipped:
		r.action(e)
	case engine.EventConflict:
		r.conflict(e)
	case engine.EventWarning:
		where := ""
		if e.Path != "" || e.Target != "" {
			where = place(e.Path, e.Target)
		}
		r.warning(where, e.Path, e.Target, e.Err)
	case engine.EventTargetLost:
		r.targetLost(e)
	case engine.EventFailed:
		r.failure(e.Path, e.Target, "", e.Err)
	case engine.EventMismatch:
		r.mismatch(e.Path, e.Target, "", e.Err)
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
	r.say(place(e.Path, e.Target) + ": " + quote.Text(text) + " (" + quote.Text(hint) + ")")
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

func (r *reporter) targetLost(e engine.Event) {
	r.log.targetLost(e)
	at := ""
	if e.Path != "" {
		at = " at " + quote.Name(e.Path)
	}
	r.say(quote.Name(e.Target) + ": destination given up" + at + ": " + quotedError(e.Err))
	r.record(&r.errors, e.Path, e.Target, "destination", errorText(e.Err))
}

// finish tells how the run as a whole ended, and what that means.
func (r *reporter) finish(s *engine.Summary, err error) outcome {
	advice := "; run the same command again to finish"
	if r.dryRun {
		advice = ""
	}
	o := r.cutShort(err, advice)
	if s != nil { // each of these was told
		o.failed = o.failed || s.Errors > 0
		o.mismatched = s.Mismatches > 0
		o.conflicts = s.Conflicts > 0
	}
	failures, mismatches := r.told()
	o.failed = o.failed || failures > 0
	o.mismatched = o.mismatched || mismatches > 0
	r.log.stages(s)
	r.log.finished(s, failures, mismatches, o)
	return o
}
