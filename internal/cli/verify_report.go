package cli

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// verifyReporter prints and logs the results of a verification, and its summary.
type verifyReporter struct {
	*reporter
	options *verify.Options
	silent  bool // print no lines on standard output
}

// several reports whether there are several directories. Names then begin with their directory.
func (r *verifyReporter) several() bool { return len(r.options.Paths) > 1 }

// usedByVerify are the files of a verification. A verification writes to no tree, so its log may be
// in one. plan is the directory of its plan, or "".
func usedByVerify(o *verify.Options, selected *selection, plan string) usedFiles {
	stdin, _ := o.Stdin.(*os.File)
	paths := append(slices.Clip(o.Paths), o.Manifest)
	if o.Manifest != "" && !filepath.IsAbs(o.Manifest) {
		for _, dir := range o.Paths { // verify searches there, too
			paths = append(paths, filepath.Join(dir, o.Manifest))
		}
	}
	used := usedFiles{files: append(selected.files(), argumentFiles("a manifest to check", paths, stdin)...)}
	if plan != "" {
		used.trees = []usedFile{{what: ofPlan, path: plan}}
	}
	return used
}

// newVerifyReporter opens the log and the HTML report of a verification with the options o, and
// returns its reporter, which o then reports to.
func newVerifyReporter(cmd *cobra.Command, flags *outputFlags, o *verify.Options, silent bool, used usedFiles) (*verifyReporter, error) {
	page, err := openVerifyReport(cmd, o, flags.report)
	if err != nil {
		return nil, err
	}
	base, err := newReporter(cmd, flags, used)
	if err != nil {
		return nil, err
	}
	base.page = page
	r := &verifyReporter{base, o, silent}
	o.Report = r.result
	if page != nil {
		o.Each = r.checked
	}
	return r, nil
}

// result is verify.Options.Report.
func (r *verifyReporter) result(v verify.Result) {
	name := r.name(v)
	switch v.Verdict {
	case verify.Match:
		r.line(name, "OK")
	case verify.Mismatch:
		r.line(name, "FAILED")
		r.recordResult(&r.mu.mismatches, "mismatch", v, "mismatch")
	case verify.Missing:
		r.line(name, "MISSING")
		r.recordResult(&r.mu.mismatches, "missing", v, "missing")
	case verify.Unreadable:
		r.trouble(&r.mu.errors, "failed", name, "verify: ", v)
		r.textLine(name, "FAILED open or read")
	case verify.Incomplete:
		r.trouble(&r.mu.mismatches, "incomplete", name, "", v)
		r.textLine(name, "INCOMPLETE")
	case verify.Invalid:
		r.trouble(&r.mu.mismatches, "invalid", name, "", v)
		r.textLine(name, "INVALID")
	case verify.Unlisted:
		r.line(name, "UNLISTED")
		r.page.problem(report.Problem{Kind: "unlisted file", Path: v.Path, Target: v.Dir, Cause: "no manifest lists it"})
		r.log.line(slog.LevelWarn, "unlisted", v.Path, v.Dir)
		r.keep(func() { r.mu.unlisted = append(r.mu.unlisted, unlistedJSON{newNameJSON(v.Path), v.Dir}) })
	case verify.Warning:
		r.warningAt(quoted(name), v.Path, v.Dir, v.Err)
	case verify.Failure:
		r.trouble(&r.mu.errors, "failed", name, "", v)
	}
}

// name returns the name in messages about v: its path, with the directory if there are several,
// or the directory; "" if v has neither.
func (r *verifyReporter) name(v verify.Result) string {
	switch {
	case v.Path == "" && v.Dir == "":
		return ""
	case v.Path == "":
		return v.Dir
	case !r.several():
		return v.Path
	}
	return strings.TrimRight(v.Dir, "/") + "/" + v.Path // not filepath.Join: it would resolve ".." in a hostile path
}

// quoted quotes a name for a message; "" stays "".
func quoted(name string) string {
	if name == "" {
		return ""
	}
	return quote.Name(name)
}

// line prints the verdict about a file on standard output. With --json, it prints it on standard
// error. With --silent and without --json, it prints nothing.
func (r *verifyReporter) line(name, verdict string) {
	switch {
	case r.silent:
	case !r.json:
		r.results.Line(quote.Plain(name) + ": " + verdict)
	case verdict == "OK":
		r.screen.Line(quote.Name(name) + ": " + verdict)
	default:
		r.print(quote.Name(name) + ": " + verdict)
	}
}

// textLine is line, but prints nothing with --json. Use it after a message that has the cause.
func (r *verifyReporter) textLine(name, verdict string) {
	if !r.json {
		r.line(name, verdict)
	}
}

// trouble prints the cause of a result that is neither a match nor a mismatch, and records it.
func (r *verifyReporter) trouble(count *int64, event, name, stage string, v verify.Result) {
	if name = quoted(name); name != "" {
		name += ": "
	}
	r.print(name + stage + quotedError(v.Err))
	r.recordResult(count, event, v, errorText(v.Err))
}

// recordResult logs a failed line of a manifest, and calls record.
func (r *verifyReporter) recordResult(count *int64, event string, v verify.Result, text string) {
	r.log.line(slog.LevelError, event, v.Path, v.Dir, "manifest", loggedName(v.Manifest), "error", loggedText(text))
	f := r.newFailureJSON(event, v.Path, v.Dir, failure.StageVerify, text)
	f.Manifest, f.Algorithm = v.Manifest, string(v.Algorithm)
	r.record(count, f)
}

// finish adds the counts of the summary to the outcome, writes the report, and ends the log.
func (r *verifyReporter) finish(s *verify.Summary, selected *selection, result outcome) outcome {
	result = result.or(outcome{failed: s.Errors > 0, mismatched: s.Mismatches > 0 || s.Missing > 0})
	if result.signal == nil {
		s.Warnings += selected.warnUnmet(r.reporter, r.options.Only, false) // a check of nothing is refused
	}
	result = r.writeReport(s, result)
	return r.endLog(result, "files", s.Files, "bytes", s.Bytes, "matches", s.Matches, "mismatches", s.Mismatches,
		"missing", s.Missing, "elapsed", s.Elapsed)
}

// maxManifestRows is how many rows of a summary name manifests. A directory may have one
// manifest for each file.
const maxManifestRows = 10

// printSummary prints the summary of a verification.
func (r *verifyReporter) printSummary(w io.Writer, s *verify.Summary, result outcome) {
	failures, _ := r.counts()
	v := verifyVerdict(s, failures, result)
	v.print(w)
	var t table
	t.row("checked", plural(s.Files, "file"))
	t.row("size", sizeAndTime(s.Bytes, s.Elapsed))
	t.row("matches", grouped(s.Matches))
	t.countOf("size only", s.SizeOnly, "file", " without a digest in the manifest")
	t.counts([]count{{"mismatches", s.Mismatches}, {"missing", s.Missing}, {"errors", failures}, {"unlisted", s.Unlisted}, {"incomplete", s.Incomplete}})
	t.countOf("left out", s.LeftOut, "line", ", by filters")
	t.countOf("malformed", s.Malformed, "line", "")
	t.counts([]count{{"warnings", s.Warnings}})
	if s.Files > 0 {
		t.row("read from", r.readFrom(s))
	}
	t.manifests(s.Manifests)
	t.print(w)
}

// verifyVerdict is the first line of the summary of a verification. It counts lines if a directory
// has several manifests, because these may list the same files.
func verifyVerdict(s *verify.Summary, failures int64, result outcome) verdict {
	checked, missing, noun := plural(s.Matches, "file"), " missing", "file"
	if severalForOneDirectory(s.Manifests) {
		checked = plural(s.Matches, "line") + " of " + plural(int64(len(s.Manifests)), "manifest")
		missing, noun = " of missing files", "line"
	}
	v := verdict{good: "verified: " + checked + " match", bad: "NOT VERIFIED"}
	if s.Matches == 1 {
		v.good += "es"
	}
	if s.Unlisted > 0 {
		v.good += ", " + grouped(s.Unlisted) + " unlisted"
	}
	v.addCount(s.Mismatches, "mismatch")
	v.addCountOf(s.Missing, noun, missing)
	if s.Incomplete > 0 {
		v.add("a copy is incomplete")
	}
	v.addCount(failures, "error")
	v.close(result)
	return v
}

// severalForOneDirectory reports whether a directory was checked against several manifests.
func severalForOneDirectory(used []verify.ManifestSummary) bool {
	dirs := map[string]bool{}
	for _, m := range used {
		if dirs[m.Dir] {
			return true
		}
		dirs[m.Dir] = true
	}
	return false
}

// readFrom says whether the files came from the device. If not, it names the flag that reads
// the device.
func (r *verifyReporter) readFrom(s *verify.Summary) string {
	var text string
	switch s.Cached {
	case 0:
		return "the device"
	case s.Files:
		text = "memory, perhaps"
	default:
		text = "the device, but " + plural(s.Cached, "file") + " perhaps from memory"
	}
	if r.options.Cache == pipe.CacheAuto {
		text += " (--cache drop reads the device)"
	}
	return text
}

func (t *table) manifests(used []verify.ManifestSummary) {
	shown := used
	if len(used) > maxManifestRows {
		shown = used[:maxManifestRows-1]
	}
	for _, m := range shown {
		t.row("manifest", quote.Name(m.Path)+", "+plural(m.Lines, "line"))
	}
	if rest := used[len(shown):]; len(rest) > 0 {
		lines := int64(0)
		for _, m := range rest {
			lines += m.Lines
		}
		t.row("manifests", grouped(int64(len(rest)))+" more, "+plural(lines, "line"))
	}
}

// verifyJSON is the JSON output of verify.
type verifyJSON struct {
	headJSON
	Counts verify.Counts `json:"counts"`
	amountJSON
	Manifests []verifyManifestJSON `json:"manifests"`
	Failures  []failureJSON        `json:"failures"`
	Unlisted  []unlistedJSON       `json:"unlisted"`
	Warnings  []warningJSON        `json:"warnings"`
	ExitCode  int                  `json:"exit_code"`
}

type verifyManifestJSON struct {
	nameJSON
	Directory string `json:"directory"` // directory that was checked against it
	Algorithm string `json:"algorithm"` // name of the algorithm; "" if each line names its own
	Lines     int64  `json:"lines"`
}

type unlistedJSON struct {
	nameJSON
	Directory string `json:"directory"`
}

func (r *verifyReporter) newJSON(s *verify.Summary, result outcome) verifyJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := verifyJSON{
		headJSON:   r.head(),
		Counts:     s.Counts,
		amountJSON: newAmountJSON(s.Bytes, s.Elapsed),
		Manifests:  []verifyManifestJSON{},
		Failures:   list(r.mu.failures),
		Unlisted:   list(r.mu.unlisted),
		Warnings:   list(r.mu.warnings),
		ExitCode:   result.code(),
	}
	report.Counts.Errors = r.mu.errors
	manifests := map[string]int{} // number of manifests by directory
	for _, m := range s.Manifests {
		manifests[m.Dir]++
		report.Manifests = append(report.Manifests, verifyManifestJSON{newNameJSON(m.Path), m.Dir, m.Algorithm, m.Lines})
	}
	for i := range report.Failures {
		if f := &report.Failures[i]; manifests[f.target] <= 1 {
			f.Manifest, f.Algorithm = "", ""
		}
	}
	return report
}
