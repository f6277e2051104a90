package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/counters"
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
		stdout := cmd.OutOrStdout()
		r := &reporter{screen: newPrinter(cmd), json: flags.json}
		report := &duReport{top: options.Top > 0}
		var out duPrinter = report
		if !flags.json {
			r.results = newResults(stdout, r.screen)
			if options.Top > 0 {
				out = newDuChart(stdout, r.results, flags)
			} else {
				out = newDuLines(stdout, r.results, flags)
			}
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
