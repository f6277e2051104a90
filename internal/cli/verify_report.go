package cli

import (
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// verifyReporter reports the results of a check, and its end.
type verifyReporter struct {
	reporter
	several bool // directories, so that names begin with theirs
}

// result is verify.Options.Report.
func (r *verifyReporter) result(v verify.Result) {
	name := r.name(v)
	switch v.Verdict {
	case verify.Match:
		r.line(name, "OK")
	case verify.Mismatch:
		r.line(name, "FAILED")
		r.recordResult(&r.mu.mismatches, v, "mismatch")
	case verify.Missing:
		r.line(name, "MISSING")
		r.recordResult(&r.mu.mismatches, v, "missing")
	case verify.Unreadable:
		r.trouble(name, "verify: ", v)
		if !r.json { // the message above has the cause
			r.line(name, "FAILED open or read")
		}
	case verify.Incomplete:
		r.print(quoted(name) + ": " + quotedError(v.Err))
		r.recordResult(&r.mu.mismatches, v, errorText(v.Err))
		if !r.json {
			r.line(name, "INCOMPLETE")
		}
	case verify.Unlisted:
		r.line(name, "UNLISTED")
		r.keep(func() { r.mu.unlisted = append(r.mu.unlisted, unlistedJSON{newNameJSON(v.Path), v.Dir}) })
	case verify.Warning:
		r.warningAt(quoted(name), v.Path, v.Dir, v.Err)
	case verify.Failure:
		r.trouble(name, "", v)
	}
}

// name is how a person finds what v is about; "" if it is about nothing.
func (r *verifyReporter) name(v verify.Result) string {
	switch {
	case v.Path == "" && v.Dir == "":
		return ""
	case v.Path == "":
		return v.Dir
	case !r.several:
		return v.Path
	}
	return strings.TrimRight(v.Dir, "/") + "/" + v.Path // as written: the path may be hostile
}

// quoted is a name in a message, "" if there is none.
func quoted(name string) string {
	if name == "" {
		return ""
	}
	return quote.Name(name)
}

// line prints a verdict where the results are printed, if anywhere: standard error has
// them if standard output is for JSON.
func (r *verifyReporter) line(name, verdict string) {
	switch {
	case r.results != nil:
		r.results.Line(quote.Plain(name) + ": " + verdict)
	case r.json && verdict == "OK":
		r.screen.Line(quote.Name(name) + ": " + verdict)
	case r.json:
		r.print(quote.Name(name) + ": " + verdict)
	}
}

// trouble reports why something could not be checked.
func (r *verifyReporter) trouble(name, stage string, v verify.Result) {
	if name = quoted(name); name != "" {
		name += ": "
	}
	r.print(name + stage + quotedError(v.Err))
	r.recordResult(&r.mu.errors, v, errorText(v.Err))
}

// recordResult is record for a line of a manifest.
func (r *verifyReporter) recordResult(count *int64, v verify.Result, text string) {
	f := newFailureJSON(v.Path, v.Dir, failure.StageVerify, text)
	f.Manifest, f.Algorithm = v.Manifest, string(v.Algorithm)
	r.record(count, f)
}
