package cli

import (
	"bufio"
	"encoding/hex"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/units"
)

// copyReporter prints and logs the events of a copy, and its summary.
type copyReporter struct {
	*reporter
	flags    *copyFlags
	listing  listing
	counters *counters.Set // counters of the run
	html     *copyPage

	volumes   volumes // volumes of the destinations
	oneDevice int64   // number of warnings of warnOneDevice
	again     string  // the command that completes the copy
}

// sameCommand completes a copy after its causes of failure were removed.
const sameCommand = "run the same command again"

// newCopyReporter opens the log and the HTML report of a copy with the options o, and returns
// its reporter.
func newCopyReporter(cmd *cobra.Command, flags *copyFlags, o *engine.Options) (*copyReporter, error) {
	page, err := openCopyReport(cmd, o, flags.report)
	if err != nil {
		return nil, err
	}
	base, err := newReporter(cmd, &flags.outputFlags, flags.usedFiles(o))
	if err != nil {
		return nil, err
	}
	base.page = page.htmlReport
	r := &copyReporter{reporter: base, flags: flags, listing: listing{memory: listingMemory}, html: page, volumes: volumes{}, again: sameCommand}
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
	r.html.event(e)
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
		r.failure(e.Path, e.Target, e.Err)
	case event.Mismatch:
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
		r.mu.conflicts = append(r.mu.conflicts, conflictJSON{newNameJSON(pathOrDot(e.Path)), r.where(e.Target), errorText(e.Err), e.Hint})
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
	result = r.html.write(r, s, result)
	failures, mismatches := r.counts()
	r.log.logLimit(s)
	result = r.endLog(result, "files", s.Files, "bytes", s.Bytes, "skipped", s.Skipped,
		"conflicts", s.Conflicts, "mismatches", mismatches, "errors", failures, "elapsed", s.Elapsed)
	switch {
	case r.flags.json:
		printJSON(stdout, newCopyJSON(s, r, result))
	case !r.flags.quiet:
		printCopySummary(stdout, &r.flags.options, s, r, result)
	}
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

// printCopySummary prints the summary of a copy.
func printCopySummary(w io.Writer, o *engine.Options, s *engine.Summary, r *copyReporter, result outcome) {
	failures, mismatches := r.counts()
	v := copyVerdict(o, s, failures, mismatches, result, r.again)
	v.print(w)
	printCopyTable(w, o, s, r.volumes, mismatches, failures)
}

// printCopyTable prints the part of the summary after the verdict.
func printCopyTable(w io.Writer, o *engine.Options, s *engine.Summary, v volumes, mismatches, failures int64) {
	var t table
	done := "copied"
	if s.DryRun {
		done = "would copy"
	}
	t.row(done, countsOf(s))
	if s.DryRun {
		t.row("size", units.Size(s.Bytes))
	} else {
		t.row("size", sizeAndTime(s.Bytes, s.Elapsed))
	}
	if limit := limitOf(s); limit != nil {
		t.row("limited by", limited(limit, len(s.Targets) > 1))
	}
	if s.ResumedFiles > 0 || s.ResumedBytes > 0 {
		t.row("continued", resumed(s))
	}
	if len(s.Targets) == 1 {
		t.entries(s.Targets[0].Counts)
	}
	t.countOf("left out", s.LeftOut, "entry", ", by filters")
	if s.Reserved > 0 {
		t.row("not copied", reserved(s))
	}
	t.counts([]count{
		{"conflicts", s.Conflicts}, {"mismatches", mismatches},
		{"warnings", s.Warnings}, {"errors", failures},
	})
	t.print(w)
	for _, target := range s.Targets {
		printTarget(w, o, s, &target, v.at(target.Path))
	}
}

// printTarget prints the block of one destination.
func printTarget(w io.Writer, o *engine.Options, s *engine.Summary, target *engine.TargetSummary, v volume) {
	var t table
	if len(s.Targets) > 1 {
		_, _ = io.WriteString(w, "\n")
		t.row("to", quote.Name(target.Path))
	}
	if target.Lost != nil {
		t.row("dropped", quote.Text(target.Lost.Error()))
	}
	if text := v.text(); text != "" {
		t.row("volume", text)
	}
	if len(s.Targets) > 1 {
		t.entries(target.Counts)
	}
	if target.BackedUp > 0 {
		t.row(backedUp(s, target))
	}
	if o.Verify != engine.VerifyOff && !s.DryRun && target.Lost == nil {
		t.row("verified", readBack(target))
	}
	if target.Present > 0 { // otherwise the file there, if any, is not the one that was read
		for i, digest := range target.Digests {
			t.row(string(o.Hashes[i]), hex.EncodeToString(digest)) // these are the digests of the single file
		}
	}
	t.countOf("ignored", target.Ignored, "file", " not in the history")
	for _, m := range target.Manifests {
		switch {
		case m.Generation:
			t.row("generation", quote.Name(m.Path)+", "+plural(int64(m.Lines), "file"))
			continue
		case m.Algorithm == "" && m.Lines == 0: // bagit.txt and bag-info.txt
			t.row("tag file", quote.Name(m.Path))
			continue
		}
		t.row("manifest", quote.Name(m.Path)+", "+lines(m))
		if m.SHA256 != "" && target.Digests == nil {
			t.row("its sha256", m.SHA256) // the line has 76 columns
		}
	}
	t.print(w)
}

// backedUp returns the row with the number of replaced files that a destination keeps, and
// their directory.
func backedUp(s *engine.Summary, t *engine.TargetSummary) (label, value string) {
	kept := "kept in "
	if s.DryRun {
		kept = "to be kept in "
	}
	return "backup", plural(t.BackedUp, "replaced file") + " " + kept + quote.Name(t.BackupDir)
}

// reserved counts and names the entries of the source that no copy gets.
func reserved(s *engine.Summary) string {
	text := plural(s.Reserved, "leftover") + " of unfinished copies: "
	for i, path := range s.ReservedAt {
		if i > 0 {
			text += ", "
		}
		text += quote.Name(path)
	}
	if rest := s.Reserved - int64(len(s.ReservedAt)); rest > 0 {
		text += " and " + grouped(rest) + " more"
	}
	return text
}

// copyVerdict is the first line of the summary of a copy.
func copyVerdict(o *engine.Options, s *engine.Summary, failures, mismatches int64, result outcome, again string) verdict {
	v := verdict{bad: "NOT COMPLETE"}
	switch {
	case s.DryRun:
		v.good, v.bad = "dry run: nothing was written", "dry run: nothing was written, and the copy would not be complete"
	case s.Total < 0:
		v.good = "complete"
	case s.Total == 0 && s.LeftOut > 0:
		v.good = "complete: 0 of " + plural(s.LeftOut, "file") + " selected"
	default:
		v.good = "complete: " + plural(s.Total, "file") + " at " + destinations(s) + verified(o, s)
	}
	if !s.DryRun {
		v.reasons = missing(s, result.signal != nil || o.FailFast)
	}
	if len(v.reasons) == 0 {
		v.addCount(mismatches, "mismatch")
		v.addCount(failures, "error")
	}
	v.addCountOf(s.Conflicts, "conflict", " left alone")
	v.close(result)
	switch {
	case s.DryRun:
	case s.Errors+s.Mismatches+failures+mismatches > 0 || result.signal != nil:
		v.next = s.Causes.Next(again)
	case s.Conflicts > 0:
		v.next = "see the hint after each conflict"
	}
	return v
}

// destinations names the destination, or counts them.
func destinations(s *engine.Summary) string {
	if len(s.Targets) == 1 {
		return quote.Name(s.Targets[0].Path)
	}
	return plural(int64(len(s.Targets)), "destination")
}

// verified returns the end of the verdict of a complete copy: whether its files were read back,
// and through what.
func verified(o *engine.Options, s *engine.Summary) string {
	cached := false
	for _, t := range s.Targets {
		if o.Verify == engine.VerifyOff || t.Verified == 0 {
			return ""
		}
		cached = cached || t.Cached > 0
	}
	if cached {
		return ", verified through the cache"
	}
	return ", verified"
}

// missing returns how many files each destination lacks: "143 of 158 files missing at 'dst'".
// It says "missing or not checked" if the run ended early and the destination existed before:
// files there may be up to date. If the source was not counted completely, it returns how many
// files are present.
func missing(s *engine.Summary, stopped bool) (list []string) {
	all := true // true if all destinations lack the same number
	for _, t := range s.Targets {
		present, lacks := t.Present+t.Left, s.Total-t.Present-t.Left
		all = all && present == s.Targets[0].Present+s.Targets[0].Left
		at := " at " + quote.Name(t.Path)
		switch {
		case s.Total < 0:
			list = append(list, "only "+plural(present, "file")+at)
		case lacks > 0:
			how := " missing"
			if !t.Created && (t.Lost != nil || stopped) {
				how = " missing or not checked"
			}
			list = append(list, grouped(lacks)+" of "+plural(s.Total, "file")+how+at)
		case t.Lost != nil:
			list = append(list, quote.Name(t.Path)+" was dropped")
			all = false
		}
	}
	if n := len(s.Targets); n > 1 && all && len(list) == n {
		text, _, _ := strings.Cut(list[0], " at ")
		list = []string{text + " at each of " + plural(int64(n), "destination")}
	}
	return list
}

// resumed describes the work that an interrupted copy had done. At least one of the two
// numbers is not 0. Resumed bytes without files belong to a file that was continued in the
// middle; resumed files without bytes are empty.
func resumed(s *engine.Summary) string {
	var done []string
	if s.ResumedFiles > 0 {
		done = append(done, plural(s.ResumedFiles, "file"))
	}
	if s.ResumedBytes > 0 {
		done = append(done, units.Size(s.ResumedBytes))
	}
	return strings.Join(done, " and ") + " that an interrupted copy had done"
}

// readBack describes how many files of a destination were verified, and whether they were read
// from the device.
func readBack(t *engine.TargetSummary) string {
	text := plural(t.Verified, "file")
	switch {
	case t.Verified == 0:
	case t.Cached == 0:
		text += ", read back from the device"
	case t.Cached < t.Verified:
		text += ", " + grouped(t.Cached) + " of them verified through cache (no device to read)"
	default:
		text += ", verified through cache (no device to read)"
	}
	return text
}

// entries adds a row that counts the entries of the source by their outcome at a destination.
func (t *table) entries(c engine.Counts) {
	var parts []string
	for _, part := range []struct {
		n    int64
		what string
	}{
		{c.Created, "created"}, {c.Replaced, "replaced"}, {c.Updated, "metadata updated"},
		{c.UpToDate, "up to date"}, {c.Kept, "kept"},
	} {
		if part.n > 0 {
			parts = append(parts, grouped(part.n)+" "+part.what)
		}
	}
	if len(parts) > 0 {
		t.row("entries", strings.Join(parts, ", "))
	}
}

// countsOf counts what was copied. The number of files is always included, other kinds only
// if they occur.
func countsOf(s *engine.Summary) string {
	return inCounts(s.Files, []count{
		{"directory", s.Directories},
		{"symbolic link", s.Links},
		{"hard link", s.HardLinks},
		{"special file", s.Specials},
	})
}
