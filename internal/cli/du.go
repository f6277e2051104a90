package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/usage"
)

// runDu is [usage.Run], or what a test puts in its place.
type runDu func(context.Context, *usage.Options) (*usage.Summary, error)

func newDuCmd(run runDu) *cobra.Command {
	flags := &duFlags{}
	cmd := &cobra.Command{
		Use:        "du [flags] [PATH...]",
		SuggestFor: []string{"usage", "size"},
		Short:      "Tell what trees take on their devices, in parallel",
		Long: `Prints what each PATH (by default the current directory) takes on its device,
with everything below it: the numbers of GNU du, in its format. A file with
several names counts once. Unlike GNU du, it prints one line for each PATH and
not one for each directory, unless --max-depth, --all or --top asks for more.`,
		Example: `  sealift du /mnt/archive /home
  sealift du --top 20 /home
  sealift du -d 1 -h . | sort -h
  sealift du -c --exclude node_modules projects/*`,
		Annotations: endsWith("0 1 2 130 143"),
	}
	addGroups(cmd, flags.groups())
	cmd.Flags().Bool("help", false, "") // or else cobra takes -h for it
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.duOptions(cmd, args)
		if err != nil {
			return err
		}
		stdout := cmd.OutOrStdout()
		r := newReporter(cmd)
		r.json = flags.json
		report := &duReport{top: options.Top > 0}
		var out duPrinter = report
		switch {
		case flags.json:
		case options.Top > 0:
			out = newDuChart(stdout, r.results, flags)
		default:
			out = newDuLines(stdout, r.results, flags)
		}
		options.Tell = out.entry
		options.Report = func(path string, err error) {
			r.failure("", "", &failure.FileError{Path: path, Stage: failure.StageScan, Err: err})
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
				result = result.or(outcome{failed: s.Errors > 0})
				if flags.json {
					printJSON(stdout, report.json(options, r, result))
				}
				return result
			},
		})
	}
	return cmd
}

const maxTop = 1_000_000 // entries; each costs some hundred bytes until it is drawn

// blockSizeHelp explains the values, as policyHelp does.
const blockSizeHelp = "print sizes in units of `SIZE`, rounded up\n" + `1M              as plain numbers
M, MiB, MB      with the unit behind them
human-readable  in the unit that each fills
si              the same, in powers of 1000
Of -h, -k, -b and -B, the last one counts.`

// duFlags is the command line of du.
type duFlags struct {
	options usage.Options
	rules   filter.List
	depth   int
	unit    unit

	summarize, total, null, json bool
}

func (f *duFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to measure", func(s *pflag.FlagSet) {
			s.BoolVar(&o.Apparent, "apparent-size", false, "count sizes, not what is allocated on the device")
			s.BoolVarP(&o.CountLinks, "count-links", "l", false, "count a file with several names once for each of them")
			s.BoolVarP(&o.OneFileSystem, "one-file-system", "x", false, "do not enter other file systems")
			s.Func("exclude", "leave out what matches the gitignore-style `PATTERN`; the last match wins", f.rules.Exclude)
		}},
		{groupSpeed, func(s *pflag.FlagSet) {
			workersFlag(s, &o.Workers, "directories read")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			s.BoolVarP(&f.summarize, "summarize", "s", false, "one line for each PATH; this is the default")
			s.VarP(newValue(&f.depth, "0", countBetween(0, math.MaxInt32, "")), "max-depth", "d", "`NUMBER`: print directories, too, so many levels below PATH")
			s.BoolVarP(&o.Files, "all", "a", false, "print files, too; at every depth unless --max-depth is given")
			s.BoolVarP(&f.total, "total", "c", false, "print the total of all PATHs as the last line")
			s.Var(newValue(&o.Top, "off", countBetween(1, maxTop, "off")), "top", "`NUMBER`: draw the largest files and directories below each PATH as a bar chart")
			s.BoolVar(&f.json, "json", false, "print one JSON object; sizes in it are bytes")
			s.BoolVarP(&f.null, "null", "0", false, "end lines in NUL bytes, and do not quote names")
		}},
		{"Sizes in the output", func(s *pflag.FlagSet) {
			s.BoolFuncP("human-readable", "h", "print sizes such as 4.0K and 1.5G; the default on a terminal and for --top (for this help: --help)", f.unitFlag(unitHuman, nil))
			s.BoolFuncP("kibibytes", "k", "as --block-size=1K, the default elsewhere", f.unitFlag(unitKibi, nil))
			s.BoolFuncP("bytes", "b", "as --apparent-size --block-size=1", f.unitFlag(unitBytes, &o.Apparent))
			s.VarP(newValue(&f.unit, "", parseUnit, "human-readable", "si", "1", "K", "M", "G", "KB", "MB", "GB"), "block-size", "B", blockSizeHelp)
		}},
	}
}

// unitFlag sets the unit, and also another flag if there is one.
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
	case f.null && f.json:
		return nil, usagef("--null and --json contradict each other")
	case slices.Contains(args, ""):
		return nil, usagef("the name of a path is empty")
	}
	o.MaxDepth = f.depth
	if (o.Files || o.Top > 0) && !cmd.Flags().Changed("max-depth") {
		o.MaxDepth = -1
	}
	if cmd.Flags().Changed("exclude") {
		o.Filter = &f.rules
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	o.Paths = args
	return o, nil
}

// duPrinter prints sizes in one of three forms: as lines, as charts, as JSON.
type duPrinter interface {
	entry(usage.Entry)
	// finish comes after the last entry; complete says that the run has reached its end.
	finish(s *usage.Summary, complete bool)
}

// duLines prints entries as GNU du does.
type duLines struct {
	results *results
	unit    unit
	quoted  bool // names, for a terminal; in a pipe they are bytes
	end     byte
	total   bool
	line    []byte
}

func newDuLines(stdout io.Writer, r *results, flags *duFlags) *duLines {
	l := &duLines{results: r, unit: flags.unit, end: '\n', total: flags.total}
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
	name := e.Path
	if l.quoted {
		name = quote.Plain(name)
	}
	l.print(e.Bytes, name)
}

func (l *duLines) print(bytes uint64, name string) {
	l.line = append(l.unit.append(l.line[:0], bytes), '\t')
	l.line = append(append(l.line, name...), l.end)
	_, _ = l.results.Write(l.line) // which remembers the error
}

func (l *duLines) finish(s *usage.Summary, complete bool) {
	if l.total && complete {
		l.print(s.Bytes, "total")
	}
}

// duReport collects the account of du for programs.
type duReport struct {
	top     bool // a path comes before the entries below it, and not after
	paths   []duPathJSON
	pending []duEntryJSON // of a path that comes later
	total   uint64
}

type duReportJSON struct {
	Schema   int           `json:"schema"`
	Apparent bool          `json:"apparent"` // sizes, and not what is allocated
	Paths    []duPathJSON  `json:"paths"`
	Total    uint64        `json:"total"` // bytes
	Failures []failureJSON `json:"failures"`
	ExitCode int           `json:"exit_code"`
}

type duPathJSON struct {
	nameJSON
	Kind    string        `json:"kind"`
	Bytes   uint64        `json:"bytes"`
	Entries []duEntryJSON `json:"entries"` // below it, in the order of printing
}

type duEntryJSON struct {
	nameJSON
	Kind  string `json:"kind"`
	Bytes uint64 `json:"bytes"`
	Depth int    `json:"depth"`
}

func (d *duReport) entry(e usage.Entry) {
	name, kind := newNameJSON(e.Path), e.Kind.String()
	switch below := (duEntryJSON{name, kind, e.Bytes, e.Depth}); {
	case e.Depth == 0:
		d.paths = append(d.paths, duPathJSON{name, kind, e.Bytes, list(d.pending)})
		d.pending = nil
	case d.top:
		last := &d.paths[len(d.paths)-1]
		last.Entries = append(last.Entries, below)
	default:
		d.pending = append(d.pending, below)
	}
}

// finish leaves out the pending entries: the size of their path is not known.
func (d *duReport) finish(s *usage.Summary, _ bool) { d.total = s.Bytes }

func (d *duReport) json(o *usage.Options, r *reporter, result outcome) duReportJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	return duReportJSON{
		Schema:   jsonSchema,
		Apparent: o.Apparent,
		Paths:    list(d.paths),
		Total:    d.total,
		Failures: list(r.mu.failures),
		ExitCode: result.code(),
	}
}
