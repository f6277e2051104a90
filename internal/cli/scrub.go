package cli

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/fsys"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/units"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func newScrubCmd(run runner[verify.ScrubOptions, verify.ScrubSummary]) *cobra.Command {
	options, flags := &verify.ScrubOptions{}, &outputFlags{}
	cmd := &cobra.Command{
		Use:        "scrub --state FILE --for TIME [flags] DIR",
		SuggestFor: []string{"patrol"},
		Short:      "Check a part of an archive, and remember it",
		Long: `Checks the files that the manifests of DIR list, as verify does, but only for
TIME. The files whose last check is the oldest come first. The state, a file
outside DIR, has the time and the result of each check, so that the next run
continues. Files are read from the device, not from memory, with low priority
where the system has one.

The state has the size and the modification time of each file at its last good
check. A file that differs is ROTTED if these two are the same, CHANGED if not,
and just DIFFERS if no scrub has found it good before. A file that does not
exist is MISSING. A file that no manifest lists is NEW, which does not change
the exit code.` + notesBelow +
			`A file that was begun is read to its end, also if that needs more than TIME, and
each run begins the file with the oldest check. Files that were damaged are
checked again first. They get at most half of TIME; the rest of them is reported
as before.

With --max-age, a file is due when half of AGE has passed since its last check,
so that late or short runs do no harm. Times have units: 45m, 2h, 1h30m, 90d,
12w.

No other command reads the state. To repeat all checks, remove it.`,
		Example: `  sealift scrub --state /srv/scrub/archive --for 2h /mnt/archive
  sealift scrub --state ~/archive.state --for 30m --max-age 90d /mnt/archive
  sealift scrub --state ~/archive.state --for 2h --json /mnt/archive`,
		Annotations: exits{
			0: "every file that was checked matches", 1: "a file could not be read, or the state not written",
			2: "usage error, or nothing to check", 3: "a file differs or is missing, or a copy is incomplete",
		}.annotations(),
	}
	addGroups(cmd, []flagGroup{
		{"What to check", func(s *pflag.FlagSet) {
			s.Var(&onceValue{&options.State}, "state", "remember the checks in `FILE`, outside DIR")
			s.Var(newValue(&options.For, "", parseAge), "for", "begin no file after `TIME`")
			s.Var(newValue(&options.MaxAge, "", parseAge), "max-age", "check each file at least once per `AGE`, and not all in each run")
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &options.Workers, "read `NUMBER` files at once")
			bwlimitFlag(s, &options.BytesPerSecond, "read")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			flags.quietFlag(s, "print only files that do not match, and failures")
			s.BoolVarP(&options.Verbose, "verbose", "v", false, "list files that match, too")
			flags.commonFlags(s, "mismatch and message")
			flags.metricsFlag(s)
		}},
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) != 1 || args[0] == "":
			return usagef("scrub takes one directory; run it once for each, with a state for each")
		case options.State == "":
			return usagef("--state is missing: a file outside %s that remembers the checks", args[0])
		case options.For == 0:
			return usagef("--for is missing: how long to check, for example --for 2h")
		case flags.quiet && options.Verbose:
			return usagef("--quiet and --verbose contradict each other")
		}
		options.Dir, options.Paths = args[0], args
		base, err := newReporter(cmd, flags, usedFiles{files: []usedFile{{what: "the state", path: options.State}}, read: args})
		if err != nil {
			return err
		}
		r := &scrubReporter{&verifyReporter{base, &options.Options, false}}
		options.Report = r.result
		_ = fsys.LowerPriority() // a scrub that reads with the usual priority is right, too
		return runCommand(cmd, job[verify.ScrubOptions, verify.ScrubSummary]{
			reporter: base,
			advice:   "; run the same command again to continue",
			run:      run,
			options:  options,
			finish: func(s *verify.ScrubSummary, result outcome) outcome {
				return r.publish(cmd.OutOrStdout(), result, func(result outcome) document { return r.newScrubOutcome(s, result) })
			},
		})
	}
	return cmd
}

// parseAge parses a time with units, such as 90d or 1h30m.
func parseAge(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	for suffix, unit := range map[string]time.Duration{"d": day, "w": 7 * day} {
		if number, found := strings.CutSuffix(text, suffix); found {
			n, err := strconv.ParseUint(number, 10, 32)
			if err == nil && n > 0 && n <= uint64(math.MaxInt64/unit) {
				return time.Duration(n) * unit, nil
			}
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, fmt.Errorf("%q is not a time of at least one second; write it as 45m, 2h, 1h30m, 90d or 12w", text)
	}
	return d, nil
}

// scrubReporter prints and logs the results of a scrub, and its summary.
type scrubReporter struct{ *verifyReporter }

// result is verify.ScrubOptions.Report.
func (r *scrubReporter) result(v verify.Result) {
	var event string
	switch v.Verdict {
	case verify.Rotted:
		event = "rotted"
	case verify.Changed:
		event = "changed"
	case verify.Differs:
		event = "differs"
	case verify.Unlisted:
		r.line(v.Path, "NEW")
		r.log.line(slog.LevelWarn, "unlisted", v.Path, v.Dir)
		r.keep(func() { r.mu.unlisted = append(r.mu.unlisted, unlistedJSON{newNameJSON(v.Path), v.Dir}) })
		return
	default:
		r.verifyReporter.result(v)
		return
	}
	r.line(v.Path, strings.ToUpper(event))
	r.recordResult(&r.mu.mismatches, event, v, event)
}

// scrubOutcome is the outcome of scrub.
type scrubOutcome struct {
	headJSON
	verdict
	Counts verify.ScrubCounts `json:"counts"` // How many there are of each kind.
	// Bytes that were read.
	amountJSON
	// The size of all listed files; an estimate while some were never checked; 0 if it is unknown.
	TotalBytes  int64  `json:"total_bytes"`
	OldestCheck string `json:"oldest_check"` // The time of the oldest check of a listed file, in UTC (RFC 3339); empty if there is none.
	Runs        int64  `json:"runs"`         // How many runs like this one check every file once; 0 if that is unknown.
	// When they will have done so, at the pace of the last two runs, in UTC (RFC 3339); empty if that is
	// unknown.
	Until     string               `json:"until"`
	Manifests []verifyManifestJSON `json:"manifests"` // The manifests that were used.
	New       []unlistedJSON       `json:"new"`       // Files that no manifest lists. They do not change the exit code.
	// Files that do not match, are missing or could not be read, in the order in which they were checked,
	// and markers and journals of unfinished copies.
	endJSON

	base *verifyOutcome // the part that verify has, too
	s    *verify.ScrubSummary
}

func (r *scrubReporter) newScrubOutcome(s *verify.ScrubSummary, result outcome) *scrubOutcome {
	base := r.newOutcome(&verify.Summary{
		Counts: verify.Counts{Files: s.Files, Cached: s.Cached}, Bytes: s.Bytes, Elapsed: s.Elapsed, Manifests: s.Manifests,
	}, result)
	d := &scrubOutcome{
		headJSON: base.headJSON, Counts: s.ScrubCounts, amountJSON: base.amountJSON, TotalBytes: s.Total,
		OldestCheck: timeText(s.Oldest), Runs: s.Runs, Until: timeText(s.Until),
		Manifests: base.Manifests, New: base.Unlisted, endJSON: base.endJSON, base: base, s: s,
	}
	d.Counts.Errors, _ = r.counts()
	d.verdict = r.scrubVerdict(&d.Counts)
	d.close(result, r.where)
	return d
}

// logged implements document.
func (d *scrubOutcome) logged() []any {
	n := &d.Counts
	return []any{
		"verdict", d.Name, "files", n.Files, "bytes", d.Bytes, "matches", n.Matches, "elapsed", d.s.Elapsed,
	}
}

// summary implements document.
func (d *scrubOutcome) summary() summary {
	s, n := summary{verdict: &d.verdict, elapsed: d.s.Elapsed}, &d.Counts
	rows := &s.rows
	rows.Add("checked", outcomes.Number(n.Files, "counts.files").With(" of"), outcomes.Before(" ", outcomes.Plural(n.Listed, "file", "counts.listed").With(share(n.Files, n.Listed)))[0])
	rows.Add("size", d.amount()...)
	rows.Problem("rotted", outcomes.Number(n.Rotted, "counts.rotted").Some())
	rows.Problem("changed", outcomes.Number(n.Changed, "counts.changed").Some())
	rows.Problem("differ", outcomes.Number(n.Differs, "counts.differs").Some())
	rows.Problem("missing", outcomes.Number(n.Missing, "counts.missing").Some())
	rows.Problem("errors", outcomes.Number(n.Errors, "counts.errors").Some())
	rows.Problem("known", outcomes.Plural(n.Known, "file", "counts.known").Some().With(" damaged earlier, not checked again"))
	rows.Add("new", outcomes.Number(n.New, "counts.new").Some())
	rows.Problem("incomplete", outcomes.Number(n.Incomplete, "counts.incomplete").Some())
	rows.Add("malformed", outcomes.Plural(n.Malformed, "line", "counts.malformed").Some())
	rows.Add("warnings", outcomes.Number(n.Warnings, "counts.warnings").Some())
	rows.Add("never", outcomes.Plural(n.Never, "file", "counts.never_checked").Some().With(" not checked by any run yet"))
	rows.Problem("overdue", outcomes.Plural(n.Overdue, "file", "counts.overdue").Some().With(" not checked within --max-age"))
	if !d.s.Oldest.IsZero() {
		rows.Add("oldest", outcomes.Text("checked at "+d.s.Oldest.Format(time.DateTime)+" UTC"))
	}
	rows.Add("pace", outcomes.Text(pace(d.s)))
	if n.Files > 0 {
		rows.Add("read from", outcomes.Text(d.base.r.readFrom(d.base.s)))
	}
	s.trees = append(s.trees, treeRows{rows: manifestRows(d.s.Manifests)})
	return s
}

// share returns a part in percent, as the end of a row.
func share(part, all int64) string {
	if all == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.3g %%)", 100*float64(part)/float64(all))
}

// pace says when every file will have been checked.
func pace(s *verify.ScrubSummary) string {
	switch s.Runs {
	case 0:
		return ""
	case 1:
		return "every file in each run"
	}
	text := "every file of " + units.Size(s.Total) + " in " + plural(s.Runs, "run") + " like this one"
	if !s.Until.IsZero() {
		text += ", until " + s.Until.Format(time.DateOnly)
	}
	return text
}

// scrubVerdict is the first line of the summary of a scrub.
func (r *scrubReporter) scrubVerdict(n *verify.ScrubCounts) verdict {
	good, bad := "scrubbed: "+plural(n.Matches, "file")+" match", words{"damaged", "DAMAGE FOUND"}
	if n.Matches == 1 {
		good += "es"
	}
	if n.Due == 0 {
		good = "scrubbed: no file is due"
	}
	if n.New > 0 {
		good += ", " + grouped(n.New) + " new"
	}
	if n.Rotted+n.Changed+n.Differs+n.Missing+n.Incomplete == 0 {
		bad = words{"not_complete", "NOT COMPLETE"}
	}
	v := r.verdict(words{"scrubbed", good}, bad)
	v.addCountOf(n.Rotted, "file", " rotted")
	v.addCountOf(n.Changed, "file", " changed")
	v.addCountOf(n.Differs, "file", " different")
	v.addCountOf(n.Missing, "file", " missing")
	if n.Incomplete > 0 {
		v.add("a copy is incomplete")
	}
	v.addCount(n.Errors, "error")
	if n.Rotted+n.Changed+n.Differs+n.Missing > 0 {
		v.next = repairStep
	}
	return v
}

// timeText returns a time for JSON; "" for no time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
