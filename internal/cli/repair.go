package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/repair"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func newRepairCmd(run runner[repair.Options, repair.Summary]) *cobra.Command {
	flags := &repairFlags{}
	cmd := &cobra.Command{
		Use:        "repair [flags] DIR --from OTHER",
		SuggestFor: []string{"heal", "restore"},
		Short:      "Replace damaged files by good ones of other copies",
		Long: `Checks DIR against its manifests, as verify does. Each file that is missing or
does not match is replaced by the file of the same path in OTHER. That file must
match every line of the manifests about it. Otherwise the damaged file stays.
--from may be repeated: each OTHER is tried in the order given. OTHER needs no
manifest.

The damaged file is kept beside the good one as .sealift-bad-NAME. --discard
removes it, and --backup-dir keeps it elsewhere. In a bag or a directory with
an ASC MHL history, one of these flags is needed. Manifests are never changed.
If a manifest does not match a line about it, nothing is replaced.

To finish an interrupted repair, run the same command again.` + notesBelow + filterHelp,
		Example: `  sealift repair /mnt/disk1 --from /mnt/disk2
  sealift repair --dry-run /mnt/archive --from /mnt/disk1 --from /mnt/disk2
  sealift repair --discard /mnt/bag --from /mnt/copy`,
		Annotations: exits{
			0: "every file of the manifests is right now", 1: "a file could not be read or replaced",
			2: "usage error, or nothing to repair from or to check",
			3: "a file is still damaged or missing, or a manifest cannot be relied on",
		}.annotations(),
		ValidArgsFunction: completeDirectories,
	}
	addGroups(cmd, flags.groups())
	complete(cmd, "from", completeDirectories)
	complete(cmd, "backup-dir", completeDirectories)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.repairOptions(cmd, args)
		if err != nil {
			return err
		}
		base, err := newReporter(cmd, &flags.outputFlags, flags.usedFiles())
		if err != nil {
			return err
		}
		r := &repairer{reporter: base, options: options}
		options.Report, options.File = r.checked, r.file
		if base.page != nil {
			options.Each = func(c *verify.Checked) { base.page.checked(c.Path, c) }
		}
		options.Warn = func(err error) { r.warning("", "", err) }
		stdout := cmd.OutOrStdout()
		return runCommand(cmd, job[repair.Options, repair.Summary]{
			reporter: r.reporter,
			advice:   "; to finish, run the same command again",
			mayWait:  options.Manifest != "",
			run:      run,
			options:  options,
			read:     "read",
			finish: func(s *repair.Summary, result outcome) outcome {
				return r.finish(stdout, s, &flags.selection, result)
			},
		})
	}
	return cmd
}

// repairFlags holds the flags of repair.
type repairFlags struct {
	options   repair.Options
	selection selection
	outputFlags
}

func (f *repairFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to repair", func(s *pflag.FlagSet) {
			eachFlag(s, "from", "read good copies from `OTHER`; may be repeated", func(dir string) error {
				o.From = append(o.From, dir)
				return nil
			})
			s.Var(&onceValue{&o.Manifest}, "manifest", "check DIR against `FILE`, - for stdin")
			s.BoolVarP(&o.DryRun, "dry-run", "n", false, "report what would be repaired, but write nothing")
			f.selection.flags(s, "check", nil)
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.BoolVar(&o.Discard, "discard", false, "keep no damaged file")
			s.StringVar(&o.Backup, "backup-dir", "", "keep damaged files in `DIR`, relative to the repaired one")
			s.BoolVar(&o.Strict, "strict", false, "treat malformed lines as errors, not warnings")
			s.Var(newValue(&o.Cache, "drop", compareCaches.Parse, compareCaches.List()...), "cache", compareCacheHelp)
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "read `NUMBER` files at once")
			bwlimitFlag(s, &o.BytesPerSecond, "read")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only damaged files, and failures")
			f.commonFlags(s, "repair and message")
			f.reportFlag(s)
			f.metricsFlag(s)
		}},
	}
}

func (f *repairFlags) repairOptions(cmd *cobra.Command, args []string) (*repair.Options, error) {
	o := &f.options
	switch {
	case len(args) == 0:
		return nil, usagef("missing operand DIR")
	case len(args) > 1:
		return nil, usagef("%s is one argument too many; name other copies with --from", quote.Name(args[1]))
	case slices.Contains(append(args, o.From...), ""):
		return nil, usagef("the name of a directory is empty")
	case len(o.From) == 0:
		return nil, usagef("--from is needed: a directory with good copies")
	case o.Discard && o.Backup != "":
		return nil, usagef("--discard and --backup-dir contradict each other")
	case cmd.Flags().Changed("backup-dir") && o.Backup == "":
		return nil, usagef("--backup-dir: the name is empty")
	case o.Manifest == "-" && f.selection.filesFrom == "-":
		return nil, usagef("--manifest - and --files-from - both need standard input")
	}
	var err error
	if o.Filter, o.Only, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	o.Dir, o.ConvertPaths, o.Stdin = args[0], true, cmd.InOrStdin()
	return o, nil
}

// usedFiles are the files of the command.
func (f *repairFlags) usedFiles() usedFiles {
	o := &f.options
	stdin, _ := o.Stdin.(*os.File)
	used := usedFiles{
		files: append(f.selection.files(), argumentFiles("a manifest to check", []string{o.Manifest}, stdin)...),
		read:  o.From, written: []string{o.Dir},
	}
	used.fs, used.trees = o.FS, []usedFile{{what: "the directory to repair", path: o.Dir}}
	used.shown = []reportTree{{role: "Repaired", path: o.Dir}}
	for i, from := range o.From {
		used.trees = append(used.trees, usedFile{what: quote.Name(from) + readOnly, path: from})
		used.shown = append(used.shown, reportTree{role: fmt.Sprintf("Copy %d", i+1), path: from})
	}
	return used
}

// repairer prints and logs the results of a repair, and its summary.
type repairer struct {
	*reporter
	options  *repair.Options
	findings int64 // results of the check that are not about one file
	files    []repairFileJSON
}

// checked is repair.Options.Report.
func (r *repairer) checked(v verify.Result) {
	switch v.Verdict {
	case verify.Warning:
		r.warningAt(quoted(v.Path), v.Path, "", v.Err)
	case verify.Failure, verify.Unreadable:
		r.failure(v.Path, "", v.Err)
	default:
		r.findings++
		event := "invalid"
		if v.Verdict == verify.Incomplete {
			event = "incomplete"
		}
		r.problem(r.printEqual, &r.mu.mismatches, event, v.Path, "", v.Err)
	}
}

// file is repair.Options.File.
func (r *repairer) file(f *repair.File) {
	word, event := "DAMAGED", "mismatch"
	if f.Verdict == verify.Missing {
		word, event = "MISSING", "missing"
	}
	switch f.Result {
	case repair.Repaired:
		if word = "REPAIRED"; r.options.DryRun {
			word = "REPAIRABLE"
		}
		r.log.line(slog.LevelInfo, "repaired", f.Path, "", "bytes", f.Size)
		r.page.settle(f.Path, f.Size, checkResults[f.Verdict]+", "+r.repairedFrom(f))
	case repair.Failed:
		word = "FAILED"
		r.problem(r.printEqual, &r.mu.errors, "failed", f.Path, "", fmt.Errorf("not repaired: %w", f.Err))
	default:
		r.problem(r.printEqual, &r.mu.mismatches, event, f.Path, "", r.why(f))
	}
	if f.Result != repair.Repaired {
		r.page.mark(f.Path, "not repaired")
	}
	if !r.json && !(r.quiet && f.Result == repair.Repaired) {
		r.results.Line(quote.Plain(f.Path) + ": " + word)
	}
	r.keep(func() { r.files = append(r.files, r.newFileJSON(f)) })
}

// repairedFrom says on the page which copy a file was repaired from.
func (r *repairer) repairedFrom(f *repair.File) string {
	text := "repaired"
	if r.options.DryRun {
		text = "repairable"
	}
	switch {
	case f.Linked != "":
		return text + " as a hard link"
	case f.From < 0:
		return text + " from an interrupted repair"
	}
	return fmt.Sprintf("%s from copy %d", text, f.From+1)
}

// why says why a file is not repaired.
func (r *repairer) why(f *repair.File) error {
	if f.Err != nil {
		return fmt.Errorf("not repaired: %w", f.Err)
	}
	var parts []string
	for _, reason := range f.Reasons {
		parts = append(parts, quote.Name(r.options.From[reason.From])+": "+reasonText(reason))
	}
	return fmt.Errorf("not repaired: no good copy (%s)", strings.Join(parts, "; "))
}

func reasonText(reason repair.Reason) string {
	switch {
	case reason.Kind == repair.Absent:
		return "absent"
	case reason.Kind == repair.Differs && reason.Err != nil:
		return "differs, too: " + reason.Err.Error()
	case reason.Kind == repair.Differs:
		return "differs, too"
	case reason.Kind == repair.Unreadable:
		return "unreadable: " + reason.Err.Error()
	}
	return reason.Err.Error()
}

// finish reports what the summary has, and publishes the outcome.
func (r *repairer) finish(stdout io.Writer, s *repair.Summary, selected *selection, result outcome) outcome {
	for _, name := range s.Untrusted {
		r.problem(r.printEqual, &r.mu.mismatches, "mismatch", name, "", errUntrusted)
	}
	if result.signal == nil {
		s.Warnings += selected.warnUnmet(r.reporter, r.options.Only, false)
	}
	failures, mismatches := r.counts()
	result = result.or(outcome{failed: failures > 0, mismatched: mismatches > 0})
	return r.publish(stdout, result, func(result outcome) document { return r.newOutcome(s, result) })
}

var errUntrusted = errors.New("the manifest does not match a line about it, or cannot be read, so nothing was replaced; restore it, or name another with --manifest")

// repairOutcome is the outcome of repair.
type repairOutcome struct {
	headJSON
	verdict
	DryRun    bool          `json:"dry_run"`   // Whether nothing was written.
	Directory nameJSON      `json:"directory"` // The directory that was repaired.
	From      []nameJSON    `json:"from"`      // The other directories, in the order of the command line.
	Counts    repair.Counts `json:"counts"`    // The counts of the run.
	// The size of the repaired files.
	amountJSON
	Manifests []verifyManifestJSON `json:"manifests"`     // The manifests that were used.
	Files     []repairFileJSON     `json:"damaged_files"` // The damaged files, in path order; names of one file come together.
	// Everything that is still wrong: damaged files, findings of the check, and failures.
	endJSON

	r *repairer
	s *repair.Summary
}

func (r *repairer) newOutcome(s *repair.Summary, result outcome) *repairOutcome {
	d := &repairOutcome{
		headJSON: r.head(), DryRun: r.options.DryRun, Directory: newNameJSON(r.options.Dir), From: []nameJSON{}, Counts: s.Counts,
		amountJSON: newAmountJSON(s.Bytes, s.Elapsed), Manifests: []verifyManifestJSON{}, Files: list(r.files), endJSON: r.ending(result), r: r, s: s,
	}
	for _, from := range r.options.From {
		d.From = append(d.From, newNameJSON(from))
	}
	for _, m := range s.Manifests {
		d.Manifests = append(d.Manifests, verifyManifestJSON{newNameJSON(m.Path), m.Dir, m.Algorithm, m.Lines})
	}
	good := words{"repaired", "repaired: " + plural(s.Repaired, "file")}
	switch {
	case s.Damaged == 0:
		good = words{"nothing_to_repair", "nothing to repair: " + plural(s.Files, "file") + " checked"}
	case r.options.DryRun:
		good = words{"repairable", "can be repaired: " + plural(s.Repaired, "file")}
	}
	failures, _ := r.counts()
	d.verdict = r.verdict(good, words{"not_repaired", "NOT REPAIRED"})
	d.addCountOf(s.Left, "file", " without a good copy")
	d.addCountOf(int64(len(s.Untrusted)), "manifest", " that cannot be relied on")
	d.addCountOf(r.findings, "finding", " of the check")
	d.addCount(failures, "error")
	if s.Left > 0 {
		d.next = "name a further copy with --from"
	}
	d.close(result, r.where)
	return d
}

// logged implements document.
func (d *repairOutcome) logged() []any {
	n := &d.Counts
	return []any{"verdict", d.Name, "files", n.Files, "bytes", d.Bytes, "repaired", n.Repaired, "left", n.Left + n.Failed, "elapsed", d.s.Elapsed}
}

// summary implements document.
func (d *repairOutcome) summary() summary {
	s, n := summary{verdict: &d.verdict, elapsed: d.s.Elapsed, elsewhere: listedInManifests}, &d.Counts
	rows := &s.rows
	rows.Add("checked", outcomes.Plural(n.Files, "file", "counts.files"))
	label := "repaired"
	if d.DryRun {
		label = "repairable"
	}
	if n.Damaged > 0 {
		rows.Add("damaged", outcomes.Plural(n.Damaged, "file", "counts.damaged"))
		rows.Add(label, outcomes.Plural(n.Repaired, "file", "counts.repaired"))
		rows.Add("size", d.amount()...)
	}
	rows.Problem("left", outcomes.Number(n.Left, "counts.left").Some())
	rows.Problem("failed", outcomes.Number(n.Failed, "counts.failed").Some())
	rows.Add("left out", outcomes.Plural(n.LeftOut, "line", "counts.left_out").Some().With(", by filters"))
	rows.Add("warnings", outcomes.Number(n.Warnings, "counts.warnings").Some())
	if d.s.Archive == "history" && n.Repaired > 0 && !d.DryRun {
		rows.Add("history", outcomes.Text("to record the repair, run sealift sum --mhl "+quote.Name(d.r.options.Dir)))
	}
	s.trees = append(s.trees, treeRows{rows: manifestRows(d.s.Manifests)})
	s.trees = append(s.trees, make([]treeRows, len(d.From))...)
	return s
}

// repairFileJSON is a damaged file.
type repairFileJSON struct {
	// The file, relative to the directory, with slashes.
	nameJSON
	Damage  string             `json:"damage"`    // The kind of damage.
	Result  string             `json:"result"`    // The result of the repair.
	Bytes   int64              `json:"bytes"`     // The size of a repaired file.
	From    string             `json:"from"`      // The directory with the good copy of a repaired file, as it was given; otherwise empty.
	Linked  string             `json:"linked_to"` // The other name of the same file that was repaired first; empty if the file was copied.
	Kept    string             `json:"kept"`      // The path of the damaged file that was kept; empty if there is none.
	Reasons []repairReasonJSON `json:"reasons"`   // Why the directories before did not help, in their order.
	// Why the file was not repaired, apart from the reasons; in English, for people; may be empty.
	Error string `json:"error"`
}

type repairReasonJSON struct {
	From   string `json:"from"`   // The directory as it was given.
	Reason string `json:"reason"` // The kind of the reason.
	Error  string `json:"error"`  // Details in English, for people; may be empty.
}

func (r *repairer) newFileJSON(f *repair.File) repairFileJSON {
	file := repairFileJSON{
		nameJSON: newNameJSON(f.Path), Damage: "mismatch", Result: "left", Bytes: f.Size, Linked: f.Linked, Kept: f.Kept,
		Reasons: []repairReasonJSON{}, Error: errorText(f.Err),
	}
	switch f.Verdict {
	case verify.Missing:
		file.Damage = "missing"
	case verify.Unreadable:
		file.Damage = "unreadable"
	}
	switch f.Result {
	case repair.Repaired:
		file.Result = "repaired"
		if f.From >= 0 {
			file.From = r.options.From[f.From]
		}
	case repair.Failed:
		file.Result = "failed"
	}
	for _, reason := range f.Reasons {
		file.Reasons = append(file.Reasons, repairReasonJSON{r.options.From[reason.From], reason.Kind, errorText(reason.Err)})
	}
	return file
}
