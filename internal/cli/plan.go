package cli

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// planner is the type of [engine.Plan]. Tests pass their own function.
type planner func(context.Context, *engine.Options, engine.PlanOptions, *counters.Set) (*shard.Plan, error)

func newPlanCmd(run planner) *cobra.Command {
	flags := &planFlags{}
	cmd := &cobra.Command{
		Use:   "plan [flags] --into PLAN SRC DST [-o DST2 ...]\n  sealift plan --script SYSTEM [flags] --into PLAN",
		Short: "Split a copy into shards, for many machines",
		Long: `Splits the copy of SRC to DST into shards that different machines copy at the
same time. PLAN is a directory that all of them can reach, outside of SRC and
DST. Each task runs "sealift run PLAN"; when all have ended, "sealift merge
PLAN" completes the copy. plan itself copies no file.

The options are those of copy and apply to all tasks. The overwrite policies
never and protect cannot be planned. plan locks each DST: until the merge, no
other copy of a tree can write there.

By default, a shard is about 30 minutes of work for one task, and there are at
most 1,000 shards. All hard links of a file are in one shard. A file is never
split.

If plan is interrupted, run the same command again.` + notesBelow + `With --script, plan prints a script that runs the tasks of an existing plan and
the merge: a shell script for Slurm or GNU parallel, or Jobs of Kubernetes. It
runs only shards that are not finished or had failures. To resubmit, print it
again.`,
		Example: `  sealift plan --into /shared/plan --shards 64 /data/project /archive/project
  sealift run /shared/plan --shard 0
  sealift merge /shared/plan
  sealift plan --into /shared/plan --script slurm --tasks 32 >submit.sh`,
		Annotations: exits{
			0: "the plan is written", 1: "the source could not be read completely; there is no plan",
			3: "the source is not complete; there is no plan",
		}.annotations(),
		ValidArgsFunction: flags.completeArgs,
	}
	addGroups(cmd, flags.groups())
	for _, name := range []string{"output", "backup-dir", "into"} {
		complete(cmd, name, completeDirectories)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.checkShards(cmd); err != nil {
			return err
		}
		if err := flags.script.check(cmd, args); err != nil {
			return err
		}
		if flags.script.given() {
			return flags.script.print(cmd, flags.into.Into)
		}
		options, err := flags.engineOptions(cmd, args)
		if err != nil {
			return err
		}
		r, err := newCopyReporter(cmd, &flags.copyFlags, options)
		if err != nil {
			return err
		}
		r.begin(options)
		r.warnOneDevice()
		return runCommand(cmd, job[engine.Options, shard.Plan]{
			reporter: r.reporter,
			advice:   r.advice("run the same command again"),
			run: func(ctx context.Context, o *engine.Options, c *counters.Set) (*shard.Plan, error) {
				return run(ctx, o, flags.into, c)
			},
			options: options,
			finish: func(p *shard.Plan, result outcome) outcome {
				return flags.finish(cmd.OutOrStdout(), p, r, result)
			},
		})
	}
	return cmd
}

// planFlags holds the flags of plan.
type planFlags struct {
	copyFlags
	into   engine.PlanOptions
	script scriptFlags
}

func (f *planFlags) groups() []flagGroup {
	return []flagGroup{
		{"What to copy", f.selectionFlags},
		{groupShards, func(s *pflag.FlagSet) {
			s.StringVar(&f.into.Into, "into", "", "create the directory `PLAN` and write the plan to it")
			s.Var(newValue(&f.into.Shards, "auto", countBetween(1, shard.MaxShards, "auto"), "auto"), "shards", "make `NUMBER` shards")
			s.Var(newValue(&f.into.ShardSize, "auto", sizeBetween("1M", "", "auto"), "auto"), "shard-size", "make shards of `SIZE` on average")
		}},
		{groupManifest, f.manifestFlags},
		{groupSafety, func(s *pflag.FlagSet) {
			// plan refuses never and protect: no task knows which files existed before.
			f.safetyFlagsWith(s, policyDefault+policyReplace, slices.DeleteFunc(policy.All.List(), func(name string) bool {
				return name == policy.Never.String() || name == policy.Protect.String()
			}))
		}},
		{groupSpeed, f.reflinkFlag},
		{groupScript, f.script.define},
		{groupOutput, func(s *pflag.FlagSet) {
			f.quietFlag(s, "print only failures")
			f.commonFlags(s, "message")
		}},
	}
}

func (f *planFlags) checkShards(cmd *cobra.Command) error {
	f.into.Sealift, f.plan = readBuild().Version, f.into.Into
	switch {
	case f.into.Into == "":
		return usagef("missing flag --into PLAN, the directory of the plan")
	case cmd.Flags().Changed("shards") && cmd.Flags().Changed("shard-size"):
		return usagef("--shards and --shard-size contradict each other")
	}
	return nil
}

// finish ends the log and prints the summary of a plan. p.ID is "" if no plan was written.
func (f *planFlags) finish(stdout io.Writer, p *shard.Plan, r *copyReporter, result outcome) outcome {
	if p.ID != "" {
		f.selection.warnUnmet(r.reporter, nil, p.Totals.Entries == 0 && p.Totals.LeftOut > 0)
	} else if result.code() == 0 {
		result.failed = true
	}
	return r.publish(stdout, result, func(result outcome) document { return f.newOutcome(p, r, result) })
}
