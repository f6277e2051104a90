package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// shardRunner is the type of [engine.RunShard]. Tests pass their own function.
type shardRunner func(context.Context, *engine.Options, *shard.Store, int, shard.AttemptOptions, *counters.Set) (*engine.Summary, error)

func newRunCmd(run shardRunner) *cobra.Command {
	flags := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] PLAN [SRC DST ...]",
		Short: "Copy one shard of a plan",
		Long: `Copies one shard of the copy that "sealift plan" has split. Any machine that
reaches PLAN, SRC and each DST can run any shard. "sealift merge PLAN" completes
the copy when all shards are finished.

Without --shard, the index of the shard is that of the array job: the value of
SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, AWS_BATCH_JOB_ARRAY_INDEX or
PBS_ARRAY_INDEX, or LSB_JOBINDEX, which counts from 1.

Give SRC and every DST, in the order of the plan, only if their paths on this
machine differ from those in the plan.

To continue a task that was interrupted or killed, run its shard again, on any
machine. If another task has the lock of the shard, run waits until that task
ends, but not longer than two minutes. A shard that is finished without failures
is not copied again. When the plan is merged, run does nothing.`,
		Example: `  sealift run /shared/plan --shard 7
  sealift run /shared/plan --shard 0 --of 4
  sealift run /shared/plan --shard 7 /mnt/project /mnt/archive`,
		Annotations: copyExits("everything in the shard is copied or up to date", "some files failed, or the shard is not finished").annotations(),
	}
	addGroups(cmd, flags.groups())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.checkRun(cmd, args); err != nil {
			return err
		}
		store, closePlan, err := openPlan(args[0])
		if err != nil {
			return err
		}
		defer closePlan()
		flags.plan = args[0]
		if err := flags.fill(store, args[1:]); err != nil {
			return err
		}
		indexes, err := flags.indexes(cmd, len(store.Plan.Shards))
		if err != nil {
			return err
		}
		return flags.run(cmd, store, indexes, run)
	}
	return cmd
}

// runFlags holds the flags of run.
type runFlags struct {
	copyFlags
	shard int
	of    int
}

func (f *runFlags) groups() []flagGroup {
	return []flagGroup{
		{groupShards, func(s *pflag.FlagSet) {
			s.Var(newValue(&f.shard, "", countBetween(0, shard.MaxShards-1, "")), "shard", "copy the shard with the index `I`, counted from 0")
			s.Var(newValue(&f.of, "", countBetween(1, shard.MaxShards, "")), "of", "copy the shards I, I+M, I+2M and so on, as one of `M` tasks")
		}},
		{groupSafety, func(s *pflag.FlagSet) {
			s.BoolVar(&f.options.FailFast, "fail-fast", false, "stop at the first failure")
		}},
		{groupSpeed, f.speedFlags},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only failures and conflicts")
			verboseFlag(s, &f.verbose, "list changes with the reason; -vv lists every entry")
			f.commonFlags(s, "change and message")
		}},
	}
}

func (f *runFlags) checkRun(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("missing operand PLAN")
	case slices.Contains(args, ""):
		return usagef("the name of a path is empty")
	}
	return f.check(cmd)
}

// fill combines the options of the plan with those of this task. paths, if any, replace the
// source and the destinations of the plan.
func (f *runFlags) fill(s *shard.Store, paths []string) error {
	o, err := copyOptions(f.plan, s, paths)
	if err != nil {
		return err
	}
	own := &f.options
	o.Workers, o.Memory, o.BlockSize, o.QueueSize = own.Workers, own.Memory, own.BlockSize, own.QueueSize
	o.BytesPerSecond, o.DirtyWindow, o.Cache, o.FailFast = own.BytesPerSecond, own.DirtyWindow, own.Cache, own.FailFast
	f.options = *o
	return nil
}

// arrayVariables are the environment variables in which batch systems pass the index of a task.
// LSF counts from 1, and sets 0 outside of an array.
var arrayVariables = []struct {
	name  string
	first int
}{
	{"SLURM_ARRAY_TASK_ID", 0}, {"JOB_COMPLETION_INDEX", 0}, {"AWS_BATCH_JOB_ARRAY_INDEX", 0}, {"PBS_ARRAY_INDEX", 0},
	{"LSB_JOBINDEX", 1},
}

// index returns the index of the task, from --shard or from the variable of an array job.
func (f *runFlags) index(cmd *cobra.Command) (int, error) {
	if cmd.Flags().Changed("shard") {
		return f.shard, nil
	}
	index, from := -1, ""
	for _, v := range arrayVariables {
		text := os.Getenv(v.name)
		if text == "" || v.first == 1 && text == "0" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < v.first {
			return 0, usagef("%s=%s is not the index of a task; give --shard", v.name, quote.Name(text))
		}
		n -= v.first
		if from != "" && n != index {
			return 0, usagef("%s and %s disagree about the shard: %d and %d; give --shard", from, v.name, index, n)
		}
		index, from = n, v.name
	}
	if from == "" {
		return 0, usagef("missing flag --shard I: no variable of an array job is set")
	}
	return index, nil
}

// indexes returns the indexes of the shards that this command runs.
func (f *runFlags) indexes(cmd *cobra.Command, shards int) (list []int, err error) {
	index, err := f.index(cmd)
	if err != nil {
		return nil, err
	}
	if !cmd.Flags().Changed("of") {
		if index >= shards {
			return nil, failure.Refuse("there is no shard %d: the plan has %s, counted from 0", index, plural(int64(shards), "shard"))
		}
		return []int{index}, nil
	}
	if index >= f.of {
		return nil, usagef("--of %d: the index of a task is at most %d, but it is %d", f.of, f.of-1, index)
	}
	for i := index; i < shards; i += f.of {
		list = append(list, i)
	}
	return list, nil
}

// The states of a shard after run, as JSON has them.
const (
	shardNotFinished = "not_finished"
	shardFinished    = "finished"
	finishedBefore   = "finished_before"
	finishedByOther  = "finished_by_another_task"
	mergedBefore     = "merged_before"
)

// shardResult is the result of one shard.
type shardResult struct {
	index   int
	state   string
	record  *shard.Finished // the record of the other task that has finished the shard, or nil
	summary *engine.Summary // nil if the shard was not begun
}

// runSummary holds the results of the shards of one command.
type runSummary struct{ shards []shardResult }

// run runs the shards of a task, one after the other.
func (f *runFlags) run(cmd *cobra.Command, s *shard.Store, indexes []int, run shardRunner) error {
	r, err := newCopyReporter(cmd, &f.copyFlags, &f.options)
	if err != nil {
		return err
	}
	r.begin(&f.options)
	return runCommand(cmd, job[engine.Options, runSummary]{
		reporter: r.reporter,
		advice:   r.advice("run the same command again to continue"),
		options:  &f.options,
		run: func(ctx context.Context, _ *engine.Options, c *counters.Set) (*runSummary, error) {
			return f.runShards(ctx, s, indexes, r, run, c)
		},
		finish: func(s *runSummary, result outcome) outcome {
			return f.finish(cmd.OutOrStdout(), r, s, result)
		},
	})
}

func (f *runFlags) runShards(ctx context.Context, s *shard.Store, indexes []int, r *copyReporter, run shardRunner, c *counters.Set) (*runSummary, error) {
	all := &runSummary{}
	for _, index := range indexes {
		name := "shard " + strconv.Itoa(index)
		summary, err := run(ctx, &f.options, s, index, shard.AttemptOptions{Waiting: func() {
			if !f.quiet {
				r.print(name + ": another task has the lock of this shard; waiting until that task ends, at most two minutes")
			}
		}}, c)
		result := shardResult{index: index, state: shardNotFinished, summary: summary}
		refused := errors.As(err, new(*failure.RefusedError))
		done, isDone := errors.AsType[*shard.FinishedError](err)
		switch {
		case isDone:
			result.state, result.record, err = finishedBefore, done.Record, nil
		case errors.Is(err, shard.ErrMerged):
			result.state, err = mergedBefore, nil
		case ctx.Err() == nil && !refused:
			state, statusErr := s.Status(index)
			if state.Finished != nil {
				result.state = shardFinished
			}
			if state.Finished != nil && errors.Is(err, shard.ErrSuperseded) {
				r.warning("", "", fmt.Errorf("%s: %w; that task has finished it", name, err))
				result.state, result.record, err = finishedByOther, state.Finished, nil
			}
			if err == nil {
				err = statusErr
			}
		}
		all.shards = append(all.shards, result)
		switch {
		case err == nil:
		case refused || ctx.Err() != nil:
			return all, err
		default:
			for _, err := range parts(err) {
				r.failure("", "", fmt.Errorf("%s: %w", name, err))
			}
		}
		if f.options.FailFast && result.state != finishedByOther && summary != nil && summary.Errors+summary.Mismatches > 0 {
			break
		}
	}
	return all, nil
}

// parts returns the errors that errors.Join has joined. Each is a message. An error that wraps several
// others in a text of its own is one message.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	return joined.Unwrap()
}

// outcome returns the outcome of the task that has finished the shard.
func (s *shardResult) outcome() outcome {
	switch {
	case s.record != nil:
		return outcomeOfRecord(s.record)
	case s.summary != nil:
		return outcomeOfCopy(s.summary)
	}
	return outcome{}
}

// outcomeOfRecord returns the outcome of the task that has made a finish record.
func outcomeOfRecord(f *shard.Finished) outcome {
	return outcome{failed: f.Failures > 0, mismatched: f.Mismatches > 0, conflicts: f.Conflicts > 0}
}

// finish ends the log and prints the summary.
func (f *runFlags) finish(stdout io.Writer, r *copyReporter, all *runSummary, result outcome) outcome {
	for _, s := range all.shards {
		result = result.or(s.outcome())
		if s.state == shardNotFinished && result.signal == nil {
			result.failed = true
		}
	}
	if err := r.printListing(stdout); err != nil {
		r.failure("", "", err)
		result.failed = true
	}
	return r.publish(stdout, result, func(result outcome) document { return f.newOutcome(all, r, result) })
}
