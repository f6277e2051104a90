package cli

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// This file implements plan, run and merge for a verification.

// checkFlags holds the flags of "plan --verify".
type checkFlags struct {
	planned bool // --verify is dir: plan a verification, not a copy
	options verify.Options
	literal bool // do not convert backslashes in names
}

// planVerifyHelp explains the modes, as policyHelp does.
const planVerifyHelp = "`MODE`: split a verification, or read the copy back\n" + `dir   check each argument, a directory, against
      its manifests; --verify alone means dir
off   do not read the copy back
dest  read each destination after the copy
full  read the source again, too`

// verifyDirectory is the mode of --verify that plans a verification, not a copy.
const verifyDirectory = "dir"

// replaceVerify changes --verify, as copy has defined it, into --verify of plan.
func (f *checkFlags) replaceVerify(s *pflag.FlagSet, mode *engine.VerifyMode) {
	parse := func(text string) (engine.VerifyMode, error) {
		if f.planned = text == verifyDirectory; f.planned {
			return engine.VerifyOff, nil
		}
		return engine.VerifyModes.Parse(text)
	}
	flag := s.Lookup("verify")
	flag.Value = newValue(mode, flag.DefValue, parse, append([]string{verifyDirectory}, engine.VerifyModes.List()...)...)
	flag.Usage = planVerifyHelp
	flag.NoOptDefVal = verifyDirectory
}

// define defines the flags that apply only to a verification.
func (f *checkFlags) define(s *pflag.FlagSet) {
	o := &f.options
	s.BoolVar(&o.Unlisted, "unlisted", false, "with --verify: report files that no manifest lists")
	s.BoolVar(&o.IgnoreMissing, "ignore-missing", false, "with --verify: do not report missing files")
	s.BoolVar(&o.Strict, "strict", false, "with --verify: treat malformed lines as errors")
	s.BoolVar(&f.literal, "no-convert-paths", false, "with --verify: do not try / for \\ in names")
}

var (
	// ofChecks are the flags that apply only to a verification.
	ofChecks = []string{"unlisted", "ignore-missing", "strict", "no-convert-paths"}
	// ofBoth are the flags that apply to a copy and to a verification.
	ofBoth = []string{
		"verify", "into", "shards", "shard-size", "manifest", "include", "exclude", "exclude-from",
		"quiet", "json", "progress", "log-file", "log-format",
	}
)

// check refuses flags that have no effect.
func (f *checkFlags) check(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch isOfChecks := slices.Contains(ofChecks, flag.Name); {
		case !f.planned && isOfChecks:
			err = usagef("--%s needs --verify", flag.Name)
		case f.planned && flag.Name == "files-from":
			err = usagef("--files-from cannot be planned with --verify, because the merge needs the list again; use --include and --exclude")
		case f.planned && !isOfChecks && !slices.Contains(ofBoth, flag.Name):
			err = usagef("--%s is a flag for a copy, but --verify plans a verification; to read a copy back, use --verify=dest", flag.Name)
		}
	})
	return err
}

// planChecks plans a verification.
func (f *planFlags) planChecks(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("the directory to check is missing")
	case slices.Contains(args, ""):
		return usagef("the name of a path is empty")
	case f.options.Manifest == "-":
		return usagef("--manifest - cannot be planned, because the merge reads the manifest again; give a file")
	case cmd.Flags().Changed("manifest") && f.options.Manifest == "":
		return usagef("--manifest: the name is empty")
	}
	o := &f.checks.options
	var err error
	if o.Filter, _, err = f.selection.read(cmd); err != nil {
		return err
	}
	o.Paths, o.Manifest, o.ConvertPaths = args, f.options.Manifest, !f.checks.literal
	f.options.Source, f.options.Targets = args[0], args
	r, err := newReporter(cmd, &f.outputFlags, usedByVerify(o, &f.selection, f.plan))
	if err != nil {
		return err
	}
	return runCommand(cmd, job[verify.Options, shard.Plan]{
		reporter: r,
		advice:   "; run the same command again",
		options:  o,
		run: func(ctx context.Context, o *verify.Options, c *counters.Set) (*shard.Plan, error) {
			return verify.Plan(ctx, o, verify.PlanOptions(f.into), c)
		},
		finish: func(p *shard.Plan, result outcome) outcome {
			return f.finish(cmd.OutOrStdout(), p, r, result)
		},
	})
}

// checkOptions returns the options of a planned verification. paths, if any, replace the
// directories of the plan.
func checkOptions(name string, s *shard.Store, paths []string, rules *filter.List) (*verify.Options, error) {
	o, err := verify.OptionsOfPlan(s.Plan, rules)
	if err != nil {
		return nil, refusePlan(name, err)
	}
	if len(paths) > 0 {
		if len(paths) != len(o.Paths) {
			return nil, usagef("the plan checks %s, but %d are given", plural(int64(len(o.Paths)), "directory"), len(paths))
		}
		o.Paths = paths
	}
	return o, nil
}

// fillChecks sets the options of a planned verification; see fill. It refuses flags that mean
// nothing for it.
func (f *runFlags) fillChecks(cmd *cobra.Command, s *shard.Store, paths []string) error {
	for _, name := range []string{"block-size", "queue-size", "memory", "dirty-window", "fail-fast"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s is for a copy, and the plan is that of a verification", name)
		}
	}
	o, err := checkOptions(f.plan, s, paths, &f.selection.rules)
	if err != nil {
		return err
	}
	own := &f.options
	o.Workers, o.BytesPerSecond, o.Cache = own.Workers, own.BytesPerSecond, own.Cache
	o.Verbose = f.verbose > 0
	own.Source, own.Targets = o.Paths[0], o.Paths
	f.checks = o
	return nil
}

// checkShard returns a shardRunner that checks a shard. It converts the summary of the
// verification to that of a copy.
func (f *runFlags) checkShard(r *copyReporter) shardRunner {
	checks := &verifyReporter{r.reporter, f.checks, false}
	f.checks.Report = checks.result
	return func(ctx context.Context, _ *engine.Options, s *shard.Store, index int, a shard.AttemptOptions, c *counters.Set) (*engine.Summary, error) {
		summary, err := verify.RunShard(ctx, f.checks, s, index, a, c)
		if summary == nil {
			return nil, err
		}
		all := &engine.Summary{Bytes: summary.Bytes, Elapsed: summary.Elapsed}
		all.Files, all.Total = summary.Files, summary.Files
		all.Mismatches, all.Errors = summary.Mismatches+summary.Missing, summary.Errors
		return all, err
	}
}

// printCheckTable prints the counts of one shard of a verification.
func printCheckTable(w io.Writer, s *engine.Summary) {
	var t table
	t.row("size", sizeAndTime(s.Bytes, s.Elapsed))
	t.counts([]count{{"mismatches", s.Mismatches}, {"errors", s.Errors}})
	t.print(w)
}

// mergedChecks is the result of merging a verification.
type mergedChecks struct {
	shards  shard.Progress
	summary *verify.Summary // nil if some shards are not finished
}

// mergeChecks merges the results of a verification.
func (f *mergeFlags) mergeChecks(cmd *cobra.Command, s *shard.Store, paths []string) error {
	if f.options.Abandon {
		return usagef("--abandon has nothing to do: a verification leaves no files outside its plan; remove the directory of the plan")
	}
	o, err := checkOptions(f.plan, s, paths, &f.selection.rules)
	if err != nil {
		return err
	}
	r, err := newVerifyReporter(cmd, &f.outputFlags, o, false, usedByVerify(o, &f.selection, f.plan))
	if err != nil {
		return err
	}
	return runCommand(cmd, job[verify.Options, mergedChecks]{
		reporter: r.reporter,
		options:  o,
		run: func(ctx context.Context, o *verify.Options, c *counters.Set) (*mergedChecks, error) {
			return f.runMergeChecks(ctx, o, s, r, c)
		},
		watch: func(c *counters.Set) func() { return r.page.watch(c, nil, "read") },
		finish: func(m *mergedChecks, result outcome) outcome {
			return f.finishChecks(cmd.OutOrStdout(), r, m, result)
		},
	})
}

// runMergeChecks reads the states of the shards. If all are finished, it merges their results.
func (f *mergeFlags) runMergeChecks(ctx context.Context, o *verify.Options, s *shard.Store, r *verifyReporter, c *counters.Set) (*mergedChecks, error) {
	m := &mergedChecks{}
	var err error
	if m.shards, err = s.Progress(ctx); err != nil {
		return m, err
	}
	if f.options.Wait && len(m.shards.Unfinished()) > 0 {
		if err := s.Wait(ctx, f.options.Attempts, func(p shard.Progress) {
			copy(m.shards, p)
			if !f.quiet {
				r.print("waiting: " + statesOf(p))
			}
		}); err != nil {
			return m, err
		}
	}
	if f.options.DryRun || len(m.shards.Unfinished()) > 0 {
		return m, nil
	}
	m.summary, err = verify.Merge(ctx, o, s, c)
	return m, err
}

// finishChecks prints the summary of verify or, if shards are not finished, their states.
func (f *mergeFlags) finishChecks(stdout io.Writer, r *verifyReporter, m *mergedChecks, result outcome) outcome {
	s := m.summary
	if s == nil {
		copying := &copyReporter{reporter: r.reporter, flags: &f.copyFlags}
		return f.finish(stdout, copying, &engine.MergeSummary{Shards: m.shards}, result)
	}
	result = r.finish(s, &f.selection, result)
	switch {
	case f.json:
		printJSON(stdout, r.newJSON(s, result))
	case !f.quiet:
		r.printSummary(stdout, s, result)
		if list := m.shards.Failed(); len(list) > 0 {
			var t table
			t.row("failed", shard.FormatIndexes(list)+"; repair the files, run these shards again, then merge again")
			t.print(stdout)
		}
	}
	return result
}
