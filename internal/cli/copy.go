package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/tally"
)

// runCopy is [engine.Run], or what a test puts in its place.
type runCopy func(context.Context, *engine.Options, *tally.Counters) (*engine.Summary, error)

func newCopyCmd(run runCopy) *cobra.Command {
	flags := &copyFlags{}
	cmd := &cobra.Command{
		Use:   "copy [flags] SRC DST [-o DST2 ...]",
		Short: "Copy a tree to one or more destinations, and write its manifest",
		Long: `Copies SRC to DST and writes a manifest from the same single read. The contents
of a directory land in DST, which is created; a file lands in DST if that is a
directory or ends in a slash, else at DST. What the source lacks is never
deleted at the destination. A run that was stopped is finished by the same
command.

Sizes such as 128K, 1M and 1MiB are powers of 1024; 80MB is a power of 1000.`,
		Example: `  sealift copy /media/card /mnt/archive
  sealift copy /media/card /mnt/archive -o /mnt/second
  sealift copy --exclude '*.tmp' --hash sha256,blake3 project /mnt/backup`,
		DisableFlagsInUseLine: true,
		Annotations:           ownExitCodes,
	}
	addGroups(cmd, flags.groups())
	completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.engineOptions(cmd, args)
		if err != nil {
			return err
		}
		return copyAndTell(cmd, flags, options, run)
	}
	return cmd
}

// copyAndTell runs the copy and tells everything about it.
func copyAndTell(cmd *cobra.Command, flags *copyFlags, options *engine.Options, run runCopy) error {
	log, err := openLog(flags.logFile)
	if err != nil {
		return usagef("--log-file: %s", fileError(err))
	}
	columns, isTerminal := terminal(cmd.ErrOrStderr())
	screen := &printer{w: cmd.ErrOrStderr()}
	r := &reporter{
		screen:   screen,
		log:      log,
		quiet:    flags.quiet,
		verbose:  flags.verbose,
		keep:     flags.json,
		dryRun:   options.DryRun,
		severals: len(options.Targets) > 1,
	}
	options.Report = r.event
	log.started(options)

	mode := flags.progress.Resolve(isTerminal, flags.quiet)
	counters := &tally.Counters{CountTotals: mode != progress.ModeNone}
	bar := progress.Start(progress.Config{Mode: mode, Counters: counters, Screen: screen, Width: columns})
	defer onStatusSignal(func() { screen.Line("sealift: " + bar.Status()) })()
	summary, err := run(cmd.Context(), options, counters)
	bar.Stop()

	if refused, ok := errors.AsType[*failure.RefusedError](err); ok {
		log.refused(refused)
		return errors.Join(refused, log.close())
	}
	result := r.finish(summary, err)
	if err := log.close(); err != nil {
		r.failure("", "", "", fmt.Errorf("--log-file: %w", fileError(err)))
		result.failed = true
	}
	tellSummary(cmd.OutOrStdout(), flags, options, summary, r, result)
	if result.code() == 0 {
		return nil
	}
	return &ended{result}
}

func tellSummary(stdout io.Writer, flags *copyFlags, options *engine.Options, summary *engine.Summary, r *reporter, result outcome) {
	if summary == nil {
		summary = &engine.Summary{DryRun: options.DryRun}
	}
	switch {
	case flags.json:
		printJSON(stdout, newReport(summary, r, result))
	case !flags.quiet:
		printSummary(stdout, summary, r.told(), result)
	}
}

// terminal tells whether w is a terminal on which a line can be redrawn, and
// how wide it is at any moment.
func terminal(w io.Writer) (columns func() int, ok bool) {
	const usual = 80
	f, isFile := w.(*os.File)
	if !isFile || !isTerminal(f) {
		return func() int { return usual }, false
	}
	columns = func() int {
		if n := terminalWidth(f); n > 0 {
			return n
		}
		return usual
	}
	return columns, os.Getenv("TERM") != "dumb" && canErase(f)
}

func hashNames() []string {
	var names []string
	for _, a := range hash.Algorithms() {
		names = append(names, string(a))
	}
	return names
}

// completeFlags tells shells what the flags with fixed values take.
func completeFlags(cmd *cobra.Command) {
	for name, values := range map[string][]string{
		"overwrite-policy": engine.PolicyNames(),
		"sparse":           engine.SparseNames(),
		"sync":             engine.SyncNames(),
		"progress":         progress.ModeNames(),
	} {
		complete(cmd, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	complete(cmd, "hash", listCompletions([]string{"none"}, hashNames()))
	complete(cmd, "preserve", listCompletions([]string{"all", "none"}, engine.PreserveNames()))
}

func complete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // a flag is misspelt above; every test of the command would show it
	}
}

// listCompletions completes the last item of a comma-separated list of names,
// or a word that stands alone.
func listCompletions(alone, names []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		comma := strings.LastIndexByte(typed, ',')
		if comma < 0 {
			return slices.Concat(alone, names), directive
		}
		before := strings.Split(typed[:comma], ",")
		var found []string
		for _, name := range names {
			if !slices.Contains(before, name) {
				found = append(found, typed[:comma+1]+name)
			}
		}
		return found, directive
	}
}
