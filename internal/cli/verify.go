package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// runVerify is [verify.Run], or what a test puts in its place.
type runVerify func(context.Context, *verify.Options, *counters.Set) (*verify.Summary, error)

// manifestNames lists names of manifests, one of each kind.
func manifestNames() string {
	var names []string
	for _, kind := range manifest.AllFileNames() {
		names = append(names, kind.Patterns[0])
	}
	return strings.Join(names, ", ")
}

func newVerifyCmd(run runVerify) *cobra.Command {
	flags := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify [flags] [DIR...]",
		Short: "Check trees against their manifests",
		Long: `Reads the files that the manifests of each DIR list (by default of the current
directory) and compares them. Manifests are files such as
` + manifestNames() + `,
or the same with other algorithms. What does not match is printed on standard
output, in the order of the manifests. Nothing outside of DIR is opened,
whatever a manifest says. Markers (SEALIFT-INCOMPLETE-*.txt) and journals of
unfinished copies in DIR are reported; the exit code is 3 then.`,
		Example: `  sealift verify /mnt/archive
  sealift verify --cache drop --unlisted /mnt/disk1 /mnt/disk2
  sealift verify --manifest old/SHA256SUMS /mnt/archive`,
		Annotations:       endsWith("0 1 2 3 130 143"),
		ValidArgsFunction: completeDirectories,
	}
	addGroups(cmd, flags.groups())
	cmd.Flag("hash-file").Hidden = true
	completeValues(cmd, map[string][]string{
		"cache":    pipe.CacheNames(),
		"progress": progress.ModeNames(),
		"workers":  {"auto"}, // or a number
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.verifyOptions(cmd, args)
		if err != nil {
			return err
		}
		return verifyAndTell(cmd, flags, options, run)
	}
	return cmd
}

// verifyAndTell runs the check and tells everything about it. Where standard
// output takes no more, the check ends: its results are what it is for.
func verifyAndTell(cmd *cobra.Command, flags *verifyFlags, options *verify.Options, run runVerify) error {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	stdout := cmd.OutOrStdout()
	screen := &printer{w: cmd.ErrOrStderr()}
	c := &checker{
		teller:   teller{screen: screen, keep: flags.json},
		aloud:    flags.json,
		severals: len(options.Dirs) > 1,
		stop:     cancel,
	}
	if !flags.silent && !flags.json {
		c.results = newResults(stdout, screen)
	}
	options.Report = c.result

	w := startWatch(cmd, screen, flags.progress, flags.silent)
	defer w.close()
	summary, err := run(ctx, options, w.counters)
	w.bar.Stop()
	c.results.Close()

	if refused, ok := errors.AsType[*failure.RefusedError](err); ok {
		return refused
	}
	if summary == nil {
		summary = &verify.Summary{}
	}
	result := c.finish(summary, err)
	switch {
	case flags.json:
		printJSON(stdout, newVerifyReport(summary, c, result))
	case !flags.silent && !flags.noSummary:
		printVerifySummary(stdout, options, summary, c, result)
	}
	return result.err()
}
