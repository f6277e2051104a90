package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/usage"
)

// runDu is [usage.Run], or what a test puts in its place.
type runDu func(context.Context, *usage.Options) (*usage.Summary, error)

func newDuCmd(run runDu) *cobra.Command {
	flags := &duFlags{}
	cmd := &cobra.Command{
		Use:   "du [flags] [PATH...]",
		Short: "Tell what trees take on their devices, in parallel",
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
		return duAndTell(cmd, flags, options, run)
	}
	return cmd
}

// duPrinter prints sizes in one of three forms: as lines, as charts, as JSON.
// Their errors are those of standard output.
type duPrinter interface {
	entry(usage.Entry) error
	// finish comes after the last entry; whole tells whether that was all.
	finish(s *usage.Summary, whole bool)
}

// duAndTell measures and tells everything about it. Where standard output takes
// no more, the walk ends: its results are what it is for.
func duAndTell(cmd *cobra.Command, flags *duFlags, options *usage.Options, run runDu) error {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	stdout := cmd.OutOrStdout()
	screen := &printer{w: cmd.ErrOrStderr()}
	t := &teller{screen: screen, keep: flags.json}
	report := &duReport{top: options.Top > 0}
	var out duPrinter = report
	if !flags.json {
		t.results = newResults(stdout, screen)
		if options.Top > 0 {
			out = newDuChart(stdout, t.results, flags)
		} else {
			out = newDuLines(stdout, t.results, flags)
		}
	}
	options.Report = func(path string, err error) {
		t.failure("", "", "", &failure.FileError{Path: path, Stage: failure.StageScan, Err: err})
	}
	options.Tell = func(e usage.Entry) {
		if err := out.entry(e); err != nil {
			cancel(err)
		}
	}

	summary, err := run(ctx, options)
	if summary == nil {
		summary = &usage.Summary{}
	}
	out.finish(summary, err == nil)
	t.results.Close()
	result := t.cutShort(err, "; the numbers are incomplete")
	failures, _ := t.told()
	result.failed = result.failed || failures > 0 || summary.Errors > 0
	if flags.json {
		printJSON(stdout, report.json(options, t, result))
	}
	return result.err()
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
	f := fileOf(stdout)
	onTerminal := f != nil && isTerminal(f)
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

func (l *duLines) entry(e usage.Entry) error {
	name := e.Path
	if l.quoted {
		name = quote.Plain(name)
	}
	return l.put(e.Bytes, name)
}

func (l *duLines) put(bytes uint64, name string) error {
	l.line = append(l.unit.append(l.line[:0], bytes), '\t')
	l.line = append(append(l.line, name...), l.end)
	_, err := l.results.Write(l.line)
	return err
}

func (l *duLines) finish(s *usage.Summary, whole bool) {
	if l.total && whole {
		_ = l.put(s.Bytes, "total") // an error shows in the results
	}
}
