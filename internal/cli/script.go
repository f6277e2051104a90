package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/submit"
)

// scriptFlags holds the flags of "plan --script".
type scriptFlags struct {
	system         submit.System
	tasks          int
	bytesPerSecond int64
	dirtyWindow    int64
}

// define adds the flags to those of plan.
func (f *scriptFlags) define(s *pflag.FlagSet) {
	s.Var(newValue(&f.system, "", submit.Systems.Parse, submit.Systems.List()...), "script", "print a script that runs an existing plan with `SYSTEM`: "+strings.Join(submit.Systems.List(), ", "))
	s.Var(newValue(&f.tasks, "16", countBetween(1, maxTasks, "")), "tasks", "run at most `NUMBER` tasks at once")
	bwlimitFlag(s, &f.bytesPerSecond, "let each task copy")
	s.Var(newValue(&f.dirtyWindow, "auto", parseWindow, "auto", "off"), "dirty-window", "`SIZE`: limit unwritten data of each task")
}

// maxTasks is the largest value of --tasks. It is the limit of Kubernetes for an Indexed Job.
const maxTasks = 100_000

// given reports whether --script is given.
func (f *scriptFlags) given() bool { return f.system != submit.None }

// ofScript are the flags that apply only to a script.
var ofScript = []string{"tasks", "bwlimit", "dirty-window"}

// check refuses flags that have no effect.
func (f *scriptFlags) check(cmd *cobra.Command, args []string) (err error) {
	if !f.given() {
		for _, name := range ofScript {
			if cmd.Flags().Changed(name) {
				err = usagef("--%s belongs to each task: give it to 'sealift run', or to plan with --script", name)
			}
		}
		return err
	}
	if len(args) > 0 {
		return usagef("--script is for an existing plan and takes no SRC and DST; plan first, then print the script")
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Name != "script" && flag.Name != "into" && flag.Name != "quiet" && !slices.Contains(ofScript, flag.Name) {
			err = usagef("--%s and --script contradict each other: the options of an existing plan cannot change; plan first, then print the script", flag.Name)
		}
	})
	return err
}

// print prints the script for the remaining shards of the plan in the directory path.
func (f *scriptFlags) print(cmd *cobra.Command, path string) error {
	store, closePlan, err := openPlan(path)
	if err != nil {
		return err
	}
	defer closePlan()
	progress, err := store.Progress(cmd.Context())
	if err == nil {
		err = store.Ended()
	}
	if err != nil {
		return refusePlan(path, err)
	}
	job := &submit.Job{
		Plan:           store.Plan,
		System:         f.system,
		Left:           progress.ToRun(),
		Tasks:          f.tasks,
		BytesPerSecond: f.bytesPerSecond,
		DirtyWindow:    max(f.dirtyWindow, 0), // auto and off are not positive
		User:           submit.User{ID: os.Getuid(), Group: os.Getgid()},
	}
	for _, name := range []string{"bwlimit", "dirty-window"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			job.RunFlags = append(job.RunFlags, "--"+name+"="+flag.Value.String())
		}
	}
	if job.Dir, err = filepath.Abs(path); err == nil {
		job.Program, err = os.Executable()
	}
	if err != nil {
		return failure.Refuse("cannot find the absolute paths for the script: %s", quote.Text(err.Error()))
	}
	groups, err := os.Getgroups() // fails on Windows, which has no groups for containers
	if err == nil {
		job.User.Groups = slices.DeleteFunc(groups, func(g int) bool { return g == job.User.Group })
	}
	err = job.Write(cmd.OutOrStdout())
	if refused, ok := errors.AsType[*submit.PathError](err); ok {
		return failure.Refuse("%s: %s", quote.Name(refused.Path), refused.Why)
	}
	return err
}
