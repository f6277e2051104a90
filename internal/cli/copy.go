package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/engine"
)

func newCopyCmd(run runner[engine.Options, engine.Summary]) *cobra.Command {
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
		log, err := openLog(flags.logFile)
		if err != nil {
			return usagef("%s", logError(err))
		}
		r := &copyReporter{
			reporter: reporter{screen: newPrinter(cmd), log: log, quiet: flags.quiet, json: flags.json},
			flags:    flags,
			several:  len(options.Targets) > 1,
		}
		options.Report = r.event
		r.logStart(options)
		advice := "; run the same command again to finish"
		if options.DryRun {
			advice = ""
		}
		return runCommand(cmd, job[engine.Options, engine.Summary]{
			reporter: &r.reporter,
			progress: flags.progress,
			quiet:    flags.quiet,
			advice:   advice,
			run:      run,
			options:  options,
			finish: func(s *engine.Summary, result outcome) outcome {
				return r.finish(cmd.OutOrStdout(), s, result)
			},
		})
	}
	return cmd
}
