package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
)

func newMergeCmd(run runner[engine.MergeOptions, engine.MergeSummary]) *cobra.Command {
	flags := &mergeFlags{}
	cmd := &cobra.Command{
		Use:   "merge [flags] PLAN [SRC DST ...]\n  sealift merge --abandon PLAN|DST",
		Short: "Complete a planned copy",
		Long: `Completes the copy that "sealift plan" has split, after "sealift run" has
finished all shards. It sets the metadata of directories, writes one manifest to
each destination, and prints one summary. The manifest is equal, byte for byte,
to the manifest of a single copy.

If shards are not finished, merge changes nothing, prints their indexes and
exits with 1. --dry-run prints the state of the shards.

Give SRC and every DST, in the order of the plan, only if their paths on this
machine differ from those in the plan.

To finish a copy with failures, run its failed shards again, then merge again.
--abandon ends a plan without a merge. Copied files stay at the destinations. If
the directory of the plan is lost, give a DST in place of PLAN.`,
		Example: `  sealift merge /shared/plan
  sealift merge --wait /shared/plan
  sealift merge --dry-run --json /shared/plan`,
		Annotations: copyExits("the copy is complete, perhaps since an earlier merge", "shards are not finished, or some files failed").annotations(),
	}
	addGroups(cmd, flags.groups())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.check(args); err != nil {
			return err
		}
		store, closePlan, err := openPlan(args[0])
		if err != nil && flags.options.Abandon && len(args) == 1 && isPlanned(args[0]) {
			return flags.abandonDestination(cmd)
		}
		if err != nil {
			return err
		}
		defer closePlan()
		o, err := copyOptions(args[0], store, args[1:])
		if err != nil {
			return err
		}
		flags.copyFlags.options = *o
		flags.options.Plan, flags.options.Copy = store, &flags.copyFlags.options
		return flags.merge(cmd, run)
	}
	return cmd
}

// mergeFlags holds the flags of merge.
type mergeFlags struct {
	options engine.MergeOptions
	copyFlags
	again string // the line that submits the remaining shards; "" for the default
}

func (f *mergeFlags) groups() []flagGroup {
	o := &f.options
	return []flagGroup{
		{"What to do", func(s *pflag.FlagSet) {
			s.BoolVar(&o.Wait, "wait", false, "wait until all shards are finished")
			s.BoolVarP(&o.DryRun, "dry-run", "n", false, "print the state of the shards, but write nothing")
			s.BoolVar(&o.Abandon, "abandon", false, "end the plan without a merge, remove its temporary files from each DST")
			s.StringVar(&f.again, "resubmit", "", "print `LINE` as the command that submits the remaining shards; the scripts of plan give it")
		}},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only failures and conflicts")
			f.commonFlags(s, "message")
			f.reportFlag(s)
		}},
	}
}

func (f *mergeFlags) check(args []string) error {
	o := &f.options
	switch {
	case len(args) == 0:
		return usagef("missing operand PLAN")
	case slices.Contains(args, ""):
		return usagef("the name of a path is empty")
	case o.Abandon && (o.Wait || o.DryRun):
		return usagef("--abandon cannot be combined with --wait or --dry-run")
	case o.Wait && o.DryRun:
		return usagef("--wait and --dry-run contradict each other")
	}
	f.plan = args[0]
	return nil
}

// openPlan opens the plan in the directory path. The caller closes it. The error is that of refusePlan.
func openPlan(path string) (s *shard.Store, closePlan func(), err error) {
	var system *fsys.FS // nil means the operating system
	dir, err := system.OpenTrustedRoot(path)
	if err != nil {
		return nil, nil, refusePlan(path, fsys.BareError(err))
	}
	if s, err = shard.Open(dir); err != nil {
		dir.Close()
		return nil, nil, refusePlan(path, err)
	}
	return s, dir.Close, nil
}

// refusePlan returns the refusal of a command for the plan in the directory path. An error of a failed
// or vanished device is no refusal: the same command may succeed later, or on another machine.
func refusePlan(path string, err error) error {
	if fsys.DeviceFailed(err) || fsys.DestinationLost(err) {
		return fmt.Errorf("plan %s: %w", quote.Name(path), err)
	}
	return failure.Refuse("plan %s: %s", quote.Name(path), quote.Text(err.Error()))
}

// copyOptions returns the options of the planned copy in the directory plan. paths, if any,
// replace its source and its destinations.
func copyOptions(plan string, s *shard.Store, paths []string) (*engine.Options, error) {
	if len(paths) == 1 {
		return nil, usagef("missing operand DST; give SRC and all DST, or neither")
	}
	o, err := engine.OptionsOfPlan(s.Plan)
	if err != nil {
		return nil, refusePlan(plan, err)
	}
	if len(paths) > 0 {
		if len(paths)-1 != len(o.Targets) {
			return nil, usagef("the plan has %s, but %d are given", plural(int64(len(o.Targets)), "destination"), len(paths)-1)
		}
		o.Source, o.Targets = paths[0], paths[1:]
	}
	return o, nil
}

// merge merges a planned copy.
func (f *mergeFlags) merge(cmd *cobra.Command, run runner[engine.MergeOptions, engine.MergeSummary]) error {
	o := f.options.Copy
	r, err := newCopyReporter(cmd, &f.copyFlags, o)
	if err != nil {
		return err
	}
	r.begin(o)
	f.options.Waiting = func(p shard.Progress) {
		if !f.quiet {
			r.print("waiting: " + statesOf(p))
		}
	}
	return runCommand(cmd, job[engine.MergeOptions, engine.MergeSummary]{
		reporter: r.reporter,
		advice:   r.advice("run the same command again to finish"),
		run:      run,
		options:  &f.options,
		finish: func(s *engine.MergeSummary, result outcome) outcome {
			return f.finish(cmd.OutOrStdout(), r, s, result)
		},
	})
}

// finish ends the log and prints the summary of a merge, or the states of the shards.
func (f *mergeFlags) finish(stdout io.Writer, r *copyReporter, s *engine.MergeSummary, result outcome) outcome {
	if s.Merged {
		result = result.or(outcomeOfCopy(&s.Summary))
		if s.Summary.Errors+s.Summary.Mismatches > 0 && result.signal == nil {
			r.again = "run the failed shards again, then merge again"
		}
	} else {
		result = result.or(f.outcomeOf(s))
	}
	unfinished := s.Shards.Unfinished()
	if f.quiet && len(unfinished) > 0 && result.signal == nil { // without --quiet, the summary has this
		r.print(grouped(int64(len(unfinished))) + " of " + plural(int64(len(s.Shards)), "shard") + " not finished: " +
			shard.FormatIndexes(unfinished) + "; to run them: " + f.resubmit())
	}
	return r.publish(stdout, result, func(result outcome) document { return newMergeOutcome(f, s, r, result) })
}

// outcomeOf returns the outcome of a command that has merged nothing, from the states of the
// shards.
func (f *mergeFlags) outcomeOf(s *engine.MergeSummary) outcome {
	if f.options.Abandon {
		return outcome{}
	}
	if s.Already {
		return outcomeOfCopy(&s.Summary)
	}
	o := outcome{failed: len(s.Shards.Unfinished()) > 0}
	for _, state := range s.Shards {
		if state.Finished != nil {
			o = o.or(outcomeOfRecord(state.Finished))
		}
	}
	return o
}

// resubmit returns the command line that runs the remaining shards: the one that a script of plan gave, or
// that of one shard, which every machine can run.
func (f *mergeFlags) resubmit() string {
	if f.again != "" {
		return f.again
	}
	plan := f.plan
	if absolute, err := fsys.AbsolutePath(plan); err == nil { // the user may run it in another directory
		plan = absolute
	}
	return "sealift run " + quote.Name(plan) + " --shard INDEX"
}

// statesOf returns the number of shards in each state.
func statesOf(p shard.Progress) string { return plural(int64(len(p)), "shard") + ": " + p.String() }

// isPlanned reports whether a directory is a destination with the mark of a plan.
func isPlanned(path string) bool {
	var system *fsys.FS // nil means the operating system
	root, err := system.OpenTrustedRoot(path)
	if err != nil {
		return false
	}
	defer root.Close()
	_, found, _ := resume.ReadPlanMark(root)
	return found
}

// abandonDestination ends a plan whose directory is lost, at the destination f.plan.
func (f *mergeFlags) abandonDestination(cmd *cobra.Command) error {
	f.copyFlags.options.Source, f.copyFlags.options.Targets = f.plan, []string{f.plan}
	f.options.Copy = &f.copyFlags.options
	return f.merge(cmd, func(ctx context.Context, o *engine.MergeOptions, _ *counters.Set) (*engine.MergeSummary, error) {
		removed, err := engine.Abandon(ctx, o.Copy.FS, f.plan, "", false)
		return &engine.MergeSummary{Removed: removed}, err
	})
}
