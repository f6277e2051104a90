package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/usage"
)

// runDu is the type of [usage.Run]. Tests pass their own function.
type runDu func(context.Context, *usage.Options) (*usage.Summary, error)

func newDuCmd(run runDu) *cobra.Command {
	flags := &duFlags{}
	cmd := &cobra.Command{
		Use:        "du [flags] [PATH...]",
		SuggestFor: []string{"usage", "size"},
		Short:      "Report the disk usage of trees, in parallel",
		Long: `Prints how much space each PATH (default: the current directory) uses on its
device, with everything below it. Numbers and format are those of GNU du. A file
with several names counts once. Unlike GNU du, it prints one line for each PATH,
and lines for directories only with --max-depth, --all or --top.` + notesBelow + filterHelp + `
Directories that are searched count themselves.`,
		Example: `  sealift du /mnt/archive /home
  sealift du --top 20 /home
  sealift du -d 1 -h . | sort -h
  sealift du -c --exclude node_modules projects/*`,
		Annotations: exits{0: "everything is counted", 1: "an entry could not be read", 2: "usage error"}.annotations(),
	}
	addGroups(cmd, flags.groups())
	cmd.Flags().Bool("help", false, "") // otherwise cobra defines -h for --help
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.duOptions(cmd, args)
		if err != nil {
			return err
		}
		stdout := cmd.OutOrStdout()
		r, err := newReporter(cmd, &flags.outputFlags, usedFiles{files: append(flags.selection.files(), argumentFiles("a file to measure", options.Paths, nil)...)})
		if err != nil {
			return err
		}
		report := &duReport{top: options.Top > 0, options: options}
		var out duPrinter = report
		switch {
		case flags.json:
		case options.Top > 0:
			out = newDuChart(stdout, r.results, flags)
		default:
			out = newDuLines(stdout, r.results, flags)
		}
		options.Emit = out.entry
		options.Report = func(path string, err error) {
			r.failure("", "", &failure.FileError{Path: path, Stage: failure.StageScan, Err: err})
		}
		for _, err := range flags.nameless {
			r.failure("", "", fmt.Errorf("--files0-from %s: %w", quote.Name(flags.pathsFrom), err))
		}
		if options.Inodes && options.Apparent {
			r.warning("", "", errors.New("--apparent-size and -b have no effect with --inodes"))
		}
		return runCommand(cmd, job[usage.Options, usage.Summary]{
			reporter:   r,
			noProgress: true,
			advice:     "; the numbers are incomplete",
			options:    options,
			run: func(ctx context.Context, o *usage.Options, _ *counters.Set) (*usage.Summary, error) {
				s, err := run(ctx, o)
				if s != nil {
					out.finish(s, err == nil)
				}
				return s, err
			},
			finish: func(s *usage.Summary, result outcome) outcome {
				if result.signal == nil {
					flags.selection.warnUnmet(r, nil, false)
				}
				return r.publish(stdout, result.or(outcome{failed: s.Errors > 0}), func(result outcome) document { return report.outcome(s, r, result) })
			},
		})
	}
	return cmd
}

const maxTop = 1_000_000 // entries; each one needs some hundred bytes of memory until it is drawn

// blockSizeHelp explains the values, as policyHelp does.
const blockSizeHelp = "print sizes in units of `SIZE`, rounded up\n" + `1M              as plain numbers
M, MiB, MB      with the unit
human-readable  as -h
si              as -h, in powers of 1000
Of -h, --si, -k, -b and -B, the last one counts.`

// duFlags holds the flags of du.
type duFlags struct {
	options   usage.Options
	selection selection
	depth     int
	unit      unit
	pathsFrom string
	nameless  []error // errors in pathsFrom that name no path

	outputFlags

	summarize, total, null bool
}

func (f *duFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to measure", func(s *pflag.FlagSet) {
			s.BoolVar(&o.Apparent, "apparent-size", false, "count file sizes, not allocated space")
			s.BoolVar(&o.Inodes, "inodes", false, "count entries, not space")
			s.BoolVarP(&o.CountLinks, "count-links", "l", false, "count a file with several names several times")
			s.BoolVarP(&o.OneFileSystem, "one-file-system", "x", false, "do not enter other file systems")
			s.BoolVarP(&o.Separate, "separate-dirs", "S", false, "do not add subdirectories to the directories above them")
			eachSwitch(s, "dereference", "L", "follow all symbolic links, with one worker", f.linksFlag(false, true))
			eachSwitch(s, "dereference-args", "D", "follow each PATH that is a symbolic link", f.linksFlag(true, false))
			s.StringVar(&f.pathsFrom, "files0-from", "", "measure the paths in `FILE`, which end in NUL bytes; - for stdin")
			f.selection.ruleFlags(s, "measure")
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "read `NUMBER` directories at once")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&f.summarize, "summarize", "s", false, "print one line for each PATH; this is the default")
			s.VarP(newValue(&f.depth, "0", countBetween(0, math.MaxInt32, "")), "max-depth", "d", "print directories, too, `NUMBER` levels below PATH")
			s.BoolVarP(&o.Files, "all", "a", false, "print files, too, at all depths or --max-depth")
			s.VarP(newValue(&o.Threshold, "", parseThreshold), "threshold", "t", "print only entries of at least `SIZE`, or with -SIZE, of at most that")
			s.Var(newValue(&o.Time, "", parseTime, "mtime", "atime", "ctime"), "time", "print the latest `TIME` in each directory: mtime, atime or ctime")
			s.Lookup("time").NoOptDefVal = "mtime"
			s.BoolVarP(&f.total, "total", "c", false, "print the total of all PATHs as the last line")
			s.Var(newValue(&o.Top, "off", countBetween(1, maxTop, "off")), "top", "draw the `NUMBER` largest files and directories below each PATH as a bar chart")
			s.BoolVarP(&f.null, "null", "0", false, "end lines with NUL bytes, do not quote names")
			f.quietFlag(s, "print only sizes and failures")
			f.jsonFlag(s)
			f.logFlags(s, "message")
		}},
		{"Sizes in the output", func(s *pflag.FlagSet) {
			eachSwitch(s, "human-readable", "h", "print sizes such as 4.0K; the default on a terminal and for --top (--help prints this help)", f.unitFlag(unitHuman, nil))
			eachSwitch(s, "si", "", "as -h, in powers of 1000", f.unitFlag(unitSI, nil))
			eachSwitch(s, "kibibytes", "k", "same as --block-size=1K; the default elsewhere", f.unitFlag(unitKibi, nil))
			eachSwitch(s, "bytes", "b", "same as --apparent-size --block-size=1", f.unitFlag(unitBytes, &o.Apparent))
			s.VarP(newValue(&f.unit, "", parseUnit, "human-readable", "si", "1", "K", "M", "G", "KB", "MB", "GB"), "block-size", "B", blockSizeHelp)
		}},
	}
}

// unitFlag returns the function of a flag that sets the unit and, if also is not nil, *also.
func (f *duFlags) unitFlag(u unit, also *bool) func(string) error {
	return func(s string) error {
		on, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		if on {
			f.unit = u
			if also != nil {
				*also = true
			}
		}
		return nil
	}
}

// linksFlag returns the function of a flag that says which symbolic links to follow. The last one
// counts, as in GNU du.
func (f *duFlags) linksFlag(paths, all bool) func(string) error {
	return func(s string) error {
		on, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		f.options.FollowPaths, f.options.FollowAll = on && paths, on && all
		return nil
	}
}

func (f *duFlags) duOptions(cmd *cobra.Command, args []string) (*usage.Options, error) {
	o := &f.options
	switch {
	case f.summarize && o.Files:
		return nil, usagef("--summarize and --all contradict each other")
	case f.summarize && f.depth > 0:
		return nil, usagef("--summarize and --max-depth %d contradict each other", f.depth)
	case f.summarize && o.Top > 0:
		return nil, usagef("--summarize and --top contradict each other")
	case f.null && o.Top > 0:
		return nil, usagef("--null and --top contradict each other: a chart is for people")
	case f.pathsFrom != "" && len(args) > 0:
		return nil, usagef("--files0-from and a PATH contradict each other")
	case f.null && f.json:
		return nil, usagef("--null and --json contradict each other")
	case slices.Contains(args, ""):
		return nil, usagef("the name of a path is empty")
	}
	o.MaxDepth = f.depth
	if (o.Files || o.Top > 0) && !cmd.Flags().Changed("max-depth") {
		o.MaxDepth = -1
	}
	if o.Inodes && f.unit.base == 0 {
		f.unit = unitBytes // the sizes are numbers without a unit
	}
	var err error
	if o.Filter, _, err = f.selection.read(cmd); err != nil {
		return nil, err
	}
	if f.pathsFrom != "" {
		return o, f.readPaths(cmd.InOrStdin())
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	o.Paths = args
	return o, nil
}

// readPaths reads the list of --files0-from.
func (f *duFlags) readPaths(stdin io.Reader) (err error) {
	var list []byte
	read := func(r io.Reader) error {
		list, err = io.ReadAll(r)
		return err
	}
	if f.pathsFrom != "-" {
		err = readFile(f.pathsFrom, read)
	} else if err = read(stdin); err != nil {
		err = fmt.Errorf("standard input: %w", err)
	}
	if err != nil {
		return usagef("--files0-from: %s", err)
	}
	number := 0
	for path := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		switch number++; {
		case len(list) == 0:
		case path == "":
			f.nameless = append(f.nameless, fmt.Errorf("the name of path %d is empty", number))
		default:
			f.options.Paths = append(f.options.Paths, path)
		}
	}
	return nil
}

// parseThreshold parses the value of --threshold, a size that may be negative.
func parseThreshold(s string) (int64, error) {
	text, negative := strings.CutPrefix(s, "-")
	size, err := parseSize(text)
	switch {
	case err != nil:
		return 0, err
	case negative && size == 0:
		return 0, errors.New("-0 is not a threshold")
	case negative:
		return -size, nil
	}
	return size, nil
}

// parseTime parses the value of --time, with the words of GNU du.
func parseTime(s string) (usage.Time, error) {
	switch s {
	case "mtime":
		return usage.Modified, nil
	case "atime", "access", "use":
		return usage.Accessed, nil
	case "ctime", "status":
		return usage.Changed, nil
	}
	return usage.NoTime, fmt.Errorf("%q is not a time; choose from mtime, atime and ctime", s)
}

// duPrinter prints sizes in one of three forms: as lines, as charts, as JSON.
type duPrinter interface {
	entry(usage.Entry)
	// finish is called after the last entry. complete is false if the run ended early.
	finish(s *usage.Summary, complete bool)
}

// duLines prints entries as GNU du does.
type duLines struct {
	results *results
	unit    unit
	quoted  bool // quote names for a terminal; other outputs get them byte for byte
	end     byte
	total   bool
	options *usage.Options
	line    []byte
}

func newDuLines(stdout io.Writer, r *results, flags *duFlags) *duLines {
	l := &duLines{results: r, unit: flags.unit, end: '\n', total: flags.total, options: &flags.options}
	onTerminal := isTerminal(stdout)
	if l.unit == (unit{}) {
		l.unit = unitKibi
		if onTerminal {
			l.unit = unitHuman
		}
	}
	if flags.null {
		l.end = 0
	}
	l.quoted = onTerminal && !flags.null
	return l
}

func (l *duLines) entry(e usage.Entry) {
	if !l.options.Passes(e.Size) {
		return
	}
	name := e.Path
	if l.quoted {
		name = quote.Plain(name)
	}
	l.print(e.Amount, name)
}

func (l *duLines) print(a usage.Amount, name string) {
	l.line = append(l.unit.append(l.line[:0], a.Size), '\t')
	if l.options.Time != usage.NoTime {
		l.line = append(time.Unix(a.Newest, 0).AppendFormat(l.line, "2006-01-02 15:04"), '\t')
	}
	l.line = append(append(l.line, name...), l.end)
	_, _ = l.results.Write(l.line) // results keeps the error
}

func (l *duLines) finish(s *usage.Summary, complete bool) {
	if l.total && complete {
		l.print(s.Amount, "total")
	}
}

// duReport collects the JSON output of du.
type duReport struct {
	top     bool // true with --top: a path comes before the entries below it, otherwise after them
	paths   []duPathJSON
	pending []duEntryJSON // entries whose path has not come yet
	total   uint64
	options *usage.Options
}

// duOutcome is the outcome of du.
type duOutcome struct {
	headJSON
	verdict
	Apparent bool         `json:"apparent"` // Whether sizes were counted instead of allocated space.
	Paths    []duPathJSON `json:"paths"`    // Each PATH that could be measured to its end, in the order of the command line.
	Total    uint64       `json:"total"`    // All paths together, in bytes, or in entries with --inodes.
	LeftOut  int64        `json:"left_out"` // Entries that filters left out. A directory that was not searched counts once.
	// Entries that could not be read.
	endJSON

	errors int64
}

type duPathJSON struct {
	// The PATH, as it was given.
	nameJSON
	Kind string `json:"kind"` // The kind of entry. Others may be added.
	duAmountJSON
	Entries []duEntryJSON `json:"entries"` // The entries below it that --max-depth, --all and --top select; otherwise empty.
}

type duEntryJSON struct {
	// The entry, below the PATH as it was given.
	nameJSON
	Kind string `json:"kind"` // The kind of entry. Others may be added.
	duAmountJSON
	Depth int `json:"depth"` // How many levels it is below the PATH.
}

// duAmountJSON is what an entry uses: bytes or, with --inodes, entries.
type duAmountJSON struct {
	// The disk usage with everything below it, in bytes: allocated space, or sizes if apparent is true.
	// Absent with --inodes.
	Bytes  *uint64 `json:"bytes,omitempty"`
	Inodes *uint64 `json:"inodes,omitempty"` // The number of entries, with everything below it. Present only with --inodes.
	// The latest time of the entry and everything below it, in UTC (RFC 3339). Present only with --time.
	Time string `json:"time,omitempty"`
}

func (d *duReport) amount(a usage.Amount) (j duAmountJSON) {
	if d.options.Inodes {
		j.Inodes = &a.Size
	} else {
		j.Bytes = &a.Size
	}
	if d.options.Time != usage.NoTime {
		j.Time = time.Unix(a.Newest, 0).UTC().Format(time.RFC3339)
	}
	return j
}

func (d *duReport) entry(e usage.Entry) {
	name, kind := newNameJSON(e.Path), e.Kind.String()
	switch below := (duEntryJSON{name, kind, d.amount(e.Amount), e.Depth}); {
	case e.Depth == 0:
		d.paths = append(d.paths, duPathJSON{name, kind, d.amount(e.Amount), list(d.pending)})
		d.pending = nil
	case d.top:
		last := &d.paths[len(d.paths)-1]
		last.Entries = append(last.Entries, below)
	default:
		d.pending = append(d.pending, below)
	}
}

// finish stores the total. It leaves out the pending entries, because the size of their path is
// unknown.
func (d *duReport) finish(s *usage.Summary, _ bool) { d.total = s.Size }

func (d *duReport) outcome(s *usage.Summary, r *reporter, result outcome) *duOutcome {
	j := &duOutcome{
		headJSON: r.head(), verdict: r.verdict(words{"complete", "complete"}, words{"not_complete", "NOT COMPLETE"}),
		Apparent: d.options.Apparent, Paths: list(d.paths), Total: s.Size, LeftOut: s.LeftOut, endJSON: r.ending(result), errors: s.Errors,
	}
	j.close(result, r.where)
	return j
}

// logged implements document.
func (j *duOutcome) logged() []any {
	return []any{"verdict", j.Name, "bytes", j.Total, "errors", j.errors}
}

// summary implements document. The text of du is its lines.
func (j *duOutcome) summary() summary { return summary{} }
