package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
)

// runCopy is [engine.Run], or what a test puts in its place.
type runCopy func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error)

func newCopyCmd(run runCopy) *cobra.Command {
	flags := &copyFlags{}
	cmd := &cobra.Command{
		Use:   "copy [flags] SRC DST [-o DST2 ...]",
		Short: "Copy a tree to one or more destinations, and write its manifest",
		Long: `SRC is read once, and the manifest is written from what was read. The contents
of a directory land in DST, which is created; a file lands in DST if that is a
directory or ends in a slash, else at DST. What the source lacks is never
deleted at the destination. A run that was stopped is finished by the same
command.

Sizes such as 128K, 1M and 1MiB are powers of 1024; 80MB is a power of 1000.`,
		Example: `  sealift copy /media/card /mnt/archive
  sealift copy --verify /media/card /mnt/archive -o /mnt/second
  sealift copy --exclude '*.tmp' --hash sha256,blake3 project /mnt/backup`,
		Annotations:       endsWith("all"),
		ValidArgsFunction: flags.completeArgs,
	}
	addGroups(cmd, flags.groups())
	complete(cmd, "output", completeDirectories)
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
	screen := &printer{w: cmd.ErrOrStderr()}
	r := &reporter{
		teller:   teller{screen: screen, log: log, quiet: flags.quiet, keep: flags.json},
		verbose:  flags.verbose,
		dryRun:   options.DryRun,
		severals: len(options.Targets) > 1,
	}
	options.Report = r.event
	log.started(options)

	w := startWatch(cmd, screen, flags.progress, flags.quiet)
	defer w.close()
	summary, err := run(cmd.Context(), options, w.counters)
	w.bar.Stop()

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
	if flags.debug && summary != nil {
		for _, line := range stageTable(summary) {
			screen.Line(line)
		}
	}
	return result.err()
}

func tellSummary(stdout io.Writer, flags *copyFlags, options *engine.Options, summary *engine.Summary, r *reporter, result outcome) {
	if summary == nil {
		summary = &engine.Summary{DryRun: options.DryRun}
	}
	switch {
	case flags.json:
		printJSON(stdout, newReport(summary, r, result))
	case !flags.quiet:
		printSummary(stdout, options, summary, r, result)
	}
}
