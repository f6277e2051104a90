package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/verify"
)

func newVerifyCmd(run runner[verify.Options, verify.Summary]) *cobra.Command {
	flags := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify [flags] [DIR...]",
		Short: "Check trees against their manifests",
		Long: `Reads the files that the manifests of each DIR list (by default of the current
directory) and compares them. Manifests are SHA256SUMS and the like, *.sha256,
shasum.*.txt, sha256-*.txt, and manifest-*.txt of BagIt. What does not match is
printed on standard output, in the order of the manifests. Nothing outside of
DIR is opened, whatever a manifest says. Markers (SEALIFT-INCOMPLETE-*.txt)
and journals of unfinished copies in DIR are reported; the exit code is 3 then.`,
		Example: `  sealift verify /mnt/archive
  sealift verify --cache drop --unlisted /mnt/disk1 /mnt/disk2
  sealift verify --manifest old/SHA256SUMS /mnt/archive`,
		Annotations:       endsWith("0 1 2 3 130 143"),
		ValidArgsFunction: completeDirectories,
	}
	addGroups(cmd, flags.groups())
	cmd.Flag("hash-file").Hidden = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.verifyOptions(cmd, args)
		if err != nil {
			return err
		}
		stdout := cmd.OutOrStdout()
		r := &verifyReporter{reporter: reporter{screen: newPrinter(cmd), json: flags.json}, several: len(options.Dirs) > 1}
		if !flags.silent && !flags.json {
			r.results = newResults(stdout, r.screen)
		}
		options.Report = r.result
		return runCommand(cmd, job[verify.Options, verify.Summary]{
			reporter: &r.reporter,
			progress: flags.progress,
			quiet:    flags.silent,
			run:      run,
			options:  options,
			finish: func(s *verify.Summary, result outcome) outcome {
				result = result.or(outcome{failed: s.Errors > 0, mismatched: s.Mismatches > 0 || s.Missing > 0})
				switch {
				case flags.json:
					printJSON(stdout, newVerifyJSON(s, r, result))
				case !flags.silent && !flags.noSummary:
					printVerifySummary(stdout, options, s, r, result)
				}
				return result
			},
		})
	}
	return cmd
}
