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
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
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
	used := usedFiles{files: append(selected.files(), argumentFiles("a manifest to check", paths, stdin)...), read: o.Paths}
	used.fs = o.FS
	for _, path := range o.Paths {
		used.shown = append(used.shown, reportTree{role: "Checked", path: path})
	}
	if plan != "" {
		used.trees = []usedFile{{what: ofPlan, path: plan}}
	}
	return used
}

// newVerifyReporter opens the log and the HTML report of a verification with the options o, and
// returns its reporter, which o then reports to.
func newVerifyReporter(cmd *cobra.Command, flags *outputFlags, o *verify.Options, silent bool, used usedFiles) (*verifyReporter, error) {
	base, err := newReporter(cmd, flags, used)
	if err != nil {
		return nil, err
	}
	r := &verifyReporter{base, o, silent}
	o.Report = r.result
	if base.page != nil {
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

// maxManifestRows is how many rows of a summary name manifests. A directory may have one
// manifest for each file.
const maxManifestRows = 10

// verifyOutcome is the outcome of verify.
type verifyOutcome struct {
	headJSON
	verdict
	Counts verify.Counts `json:"counts"` // How many there are of each kind.
	// Bytes that were read.
	amountJSON
	Manifests []verifyManifestJSON `json:"manifests"` // The manifests that were used.
	Unlisted  []unlistedJSON       `json:"unlisted"`  // With --unlisted, files that no manifest lists. They do not change the exit code.
	// Markers and journals of unfinished copies first; then mismatches, missing files and errors, in the
	// order of the manifests.
	endJSON

	r *verifyReporter
	s *verify.Summary
}

type verifyManifestJSON struct {
	// The manifest, below its directory as it was given.
	nameJSON
	Directory string `json:"directory"` // The directory, as it was given.
	Algorithm string `json:"algorithm"` // The hash; empty where each line names its own. Others may be added.
	Lines     int64  `json:"lines"`     // The number of valid lines.
}

type unlistedJSON struct {
	// The file, relative to DIR.
	nameJSON
	Directory string `json:"directory"` // The directory, as it was given.
}

// finish adds the counts of the summary to the exit code, and publishes the outcome.
func (r *verifyReporter) finish(stdout io.Writer, s *verify.Summary, selected *selection, result outcome) outcome {
	result = result.or(outcome{failed: s.Errors > 0, mismatched: s.Mismatches > 0 || s.Missing > 0})
	if result.signal == nil {
		s.Warnings += selected.warnUnmet(r.reporter, r.options.Only, false) // a check of nothing is refused
	}
	return r.publish(stdout, result, func(result outcome) document { return r.newOutcome(s, result) })
}

func (r *verifyReporter) newOutcome(s *verify.Summary, result outcome) *verifyOutcome {
	d := &verifyOutcome{
		headJSON: r.head(), Counts: s.Counts, amountJSON: newAmountJSON(s.Bytes, s.Elapsed),
		Manifests: []verifyManifestJSON{}, endJSON: r.ending(result), r: r, s: s,
	}
	r.keep(func() { d.Unlisted = list(r.mu.unlisted) })
	d.Counts.Errors, _ = r.counts()
	manifests := map[string]int{} // number of manifests by directory
	for _, m := range s.Manifests {
		manifests[m.Dir]++
		d.Manifests = append(d.Manifests, verifyManifestJSON{newNameJSON(m.Path), m.Dir, m.Algorithm, m.Lines})
	}
	for i := range d.Failures {
		if f := &d.Failures[i]; manifests[f.target] <= 1 {
			f.Manifest, f.Algorithm = "", ""
		}
	}
	d.verdict = r.verifyVerdict(&d.Counts, s.Manifests)
	if result.signal == nil && s.Mismatches+s.Missing > 0 {
		d.next = repairStep
	}
	d.close(result, r.where)
	return d
}

// logged implements document.
func (d *verifyOutcome) logged() []any {
	n := &d.Counts
	return []any{
		"verdict", d.Name, "files", n.Files, "bytes", d.Bytes, "matches", n.Matches, "mismatches", n.Mismatches, "missing", n.Missing, "elapsed", d.s.Elapsed,
	}
}

// summary implements document.
func (d *verifyOutcome) summary() summary {
	s, n := summary{verdict: &d.verdict, elapsed: d.s.Elapsed, elsewhere: listedInManifests}, &d.Counts
	rows := &s.rows
	rows.Add("checked", outcomes.Plural(n.Files, "file", "counts.files"))
	rows.Add("size", d.amount()...)
	rows.Add("matches", outcomes.Number(n.Matches, "counts.matches"))
	rows.Add("size only", outcomes.Plural(n.SizeOnly, "file", "counts.size_only").Some().With(" without a digest in the manifest"))
	rows.Problem("mismatches", outcomes.Number(n.Mismatches, "counts.mismatches").Some())
	rows.Problem("missing", outcomes.Number(n.Missing, "counts.missing").Some())
	rows.Problem("errors", outcomes.Number(n.Errors, "counts.errors").Some())
	rows.Add("unlisted", outcomes.Number(n.Unlisted, "counts.unlisted").Some())
	rows.Problem("incomplete", outcomes.Number(n.Incomplete, "counts.incomplete").Some())
	rows.Add("left out", outcomes.Plural(n.LeftOut, "line", "counts.left_out").Some().With(", by filters"))
	rows.Add("malformed", outcomes.Plural(n.Malformed, "line", "counts.malformed").Some())
	rows.Add("warnings", outcomes.Number(n.Warnings, "counts.warnings").Some())
	if n.Files > 0 {
		rows.Add("read from", outcomes.Text(d.r.readFrom(d.s)))
	}
	for _, path := range d.r.options.Paths {
		var used []verify.ManifestSummary
		for _, m := range d.s.Manifests {
			if m.Dir == path || !d.r.several() {
				used = append(used, m)
			}
		}
		s.trees = append(s.trees, treeRows{rows: manifestRows(used)})
	}
	return s
}

// listedInManifests says on the page of a check where its files are listed.
const listedInManifests = "The manifests list all files."

// manifestRows returns rows with the manifests against which a path was checked.
func manifestRows(used []verify.ManifestSummary) (rows outcomes.Rows) {
	shown := used
	if len(used) > maxManifestRows {
		shown = used[:maxManifestRows-1]
	}
	for _, m := range shown {
		rows.Add("manifest", outcomes.Name(quote.Name(m.Path)), outcomes.Text(plural(m.Lines, "line")))
	}
	if rest := used[len(shown):]; len(rest) > 0 {
		lines := int64(0)
		for _, m := range rest {
			lines += m.Lines
		}
		rows.Add("manifests", outcomes.Text(grouped(int64(len(rest)))+" more"), outcomes.Text(plural(lines, "line")))
	}
	return rows
}

// repairStep is the next step after a check has found damage.
const repairStep = "repair the files from another copy with sealift repair DIR --from OTHER"

// verifyVerdict is the first line of the summary of a verification. It counts lines if a directory
// has several manifests, because these may list the same files.
func (r *verifyReporter) verifyVerdict(n *verify.Counts, used []verify.ManifestSummary) verdict {
	checked, missing, noun := plural(n.Matches, "file"), " missing", "file"
	if severalForOneDirectory(used) {
		checked = plural(n.Matches, "line") + " of " + plural(int64(len(used)), "manifest")
		missing, noun = " of missing files", "line"
	}
	v := r.verdict(words{"verified", "verified: " + checked + " match"}, words{"not_verified", "NOT VERIFIED"})
	if n.Matches == 1 {
		v.good.text += "es"
	}
	if n.Unlisted > 0 {
		v.good.text += ", " + grouped(n.Unlisted) + " unlisted"
	}
	v.addCount(n.Mismatches, "mismatch")
	v.addCountOf(n.Missing, noun, missing)
	if n.Incomplete > 0 {
		v.add("a copy is incomplete")
	}
	v.addCount(n.Errors, "error")
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
