package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/compare"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/progress"
)

// runCompare is [compare.Run], or what a test puts in its place.
type runCompare func(context.Context, *compare.Options, *counters.Set) (*compare.Summary, error)

func newCompareCmd(run runCompare) *cobra.Command {
	flags := &compareFlags{}
	cmd := &cobra.Command{
		Use:   "compare [flags] A B [C ...]",
		Short: "Compare trees by content, before a card is formatted for example",
		Long: `Compares every entry of the directory A with the one of that name in B (and C):
type, size, content, and the target of a symbolic link. Files are read from the
devices, not from memory, in all trees at the same time. Differences are printed
on standard output, in path order. Nothing is written.

Manifests and journals of Sealift are not compared where A lacks them. Markers
(SEALIFT-INCOMPLETE-*.txt) and journals of unfinished copies are reported; the
exit code is 3 then, as it is if the trees differ.`,
		Example: `  sealift compare /media/card /mnt/archive
  sealift compare --one-way /media/card /media/disk1 /media/disk2
  sealift compare --metadata --exclude '*.tmp' project /mnt/backup`,
		Annotations:       endsWith("0 1 2 3 130 143"),
		ValidArgsFunction: completeDirectories,
	}
	addGroups(cmd, flags.groups())
	completeValues(cmd, map[string][]string{
		"cache":    compareCacheNames(),
		"progress": progress.ModeNames(),
		"workers":  {"auto"}, // or a number
		"bwlimit":  {"off"},  // or a rate
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.compareOptions(cmd, args)
		if err != nil {
			return err
		}
		return compareAndReport(cmd, flags, options, run)
	}
	return cmd
}

// compareAndReport runs the comparison and reports its results. If standard output takes no
// more of them, the comparison ends.
func compareAndReport(cmd *cobra.Command, flags *compareFlags, options *compare.Options, run runCompare) error {
	log, err := openLog(flags.logFile)
	if err != nil {
		return usagef("--log-file: %s", fileError(err))
	}
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	stdout := cmd.OutOrStdout()
	screen := &printer{w: cmd.ErrOrStderr()}
	c := &comparer{
		teller: teller{screen: screen, log: log, quiet: flags.quiet, keep: flags.json},
		trees:  options.Trees,
		stop:   cancel,
	}
	if !flags.json {
		c.results = newResults(stdout, screen)
	}
	options.Report = c.event

	w := startWatch(cmd, screen, flags.progress, flags.quiet)
	defer w.close()
	summary, err := run(ctx, options, w.counters)
	w.bar.Stop()
	c.results.Close()

	if refused, ok := errors.AsType[*failure.RefusedError](err); ok {
		log.refused(refused)
		return errors.Join(refused, log.close())
	}
	if summary == nil {
		summary = &compare.Summary{}
	}
	result := c.finish(summary, err)
	if err := log.close(); err != nil {
		c.failure("", "", "", fmt.Errorf("--log-file: %w", fileError(err)))
		result.failed = true
	}
	switch {
	case flags.json:
		printJSON(stdout, newCompareReport(options, summary, c, result))
	case !flags.quiet:
		printCompareSummary(stdout, options, summary, c, result)
	}
	return result.err()
}
