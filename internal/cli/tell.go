package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// teller turns what goes wrong in a run into messages, lines of the log and, for
// JSON, lists. Its log and its results may be nil.
type teller struct {
	screen  *printer
	results *results // on standard output; those before a message are written before it
	log     *fileLog
	quiet   bool // no warnings
	keep    bool // failures and warnings, for the JSON report

	mu         sync.Mutex
	failures   []failureJSON
	warnings   []warningJSON
	errors     int64 // failures and lost destinations, kept or not
	mismatches int64 // kept among the failures or not
}

// say prints a message, which is quoted.
func (t *teller) say(message string) {
	t.results.Flush()
	t.screen.Line("sealift: " + message)
}

// warning tells of something less than asked for. Path and target may be empty,
// and so may where, the two for people.
func (t *teller) warning(where, path, target string, err error) {
	t.log.warning(path, target, err)
	if !t.quiet {
		if where != "" {
			where += ": "
		}
		t.say("warning: " + where + quotedError(err))
	}
	if t.keep {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.warnings = append(t.warnings, warningJSON{newNameJSON(path), target, errorText(err)})
	}
}

// failure tells of something that failed; path and target may be empty. A
// FileError knows them itself.
func (t *teller) failure(path, target string, stage failure.Stage, err error) {
	t.complaint(&t.errors, "failed", path, target, stage, err)
}

// mismatch tells of content that is not what a digest promised.
func (t *teller) mismatch(path, target string, stage failure.Stage, err error) {
	t.complaint(&t.mismatches, "mismatch", path, target, stage, err)
}

func (t *teller) complaint(count *int64, title, path, target string, stage failure.Stage, err error) {
	message := quotedError(err)
	if f, ok := errors.AsType[*failure.FileError](err); ok {
		path, target, stage, err = f.Path, f.Target, f.Stage, f.Err
		message = f.Error() // which quotes itself
	} else if path != "" || target != "" {
		message = place(path, target) + ": " + message
	}
	t.log.failure(title, path, target, stage, err)
	t.say(message)
	t.record(count, path, target, stage, errorText(err))
}

// record counts a failure and keeps it for the JSON report, so that the number
// is always that of the list.
func (t *teller) record(count *int64, path, target string, stage failure.Stage, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*count++
	if t.keep {
		t.failures = append(t.failures, failureJSON{newNameJSON(pathOrDot(path)), target, string(stage), text})
	}
}

// told returns how many failures and how many mismatches have been told.
func (t *teller) told() (failures, mismatches int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errors, t.mismatches
}

// cutShort tells what the error of a whole run means, nil included; advice is
// for whoever has stopped it.
func (t *teller) cutShort(err error, advice string) outcome {
	interrupt, ok := errors.AsType[Interrupt](err)
	switch lost := t.results.Err(); {
	case err == nil:
		return outcome{}
	case ok:
		t.say(interrupt.Error() + advice)
		return outcome{signal: interrupt.Signal}
	case lost != nil && errors.Is(err, lost):
		// It is told at the end of everything, see execute.
	case errors.Is(err, context.Canceled):
		t.say("stopped") // by a caller that is not a signal
	default:
		t.failure("", "", "", err)
	}
	return outcome{failed: true}
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
