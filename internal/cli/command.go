package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/progress"
)

// runner is the function that does the work of a command, such as [engine.Run], or what
// a test puts in its place. O are its options, S is its summary.
type runner[O, S any] func(context.Context, *O, *counters.Set) (*S, error)

// job is what one command does once its flags are checked: everything in which it
// differs from the others.
type job[O, S any] struct {
	reporter *reporter
	advice   string // what to do next, for a user who has stopped the run

	noProgress bool          // show none, and do not answer the signal that asks for the state
	mayWait    bool          // while it starts, the job may wait for another command, whose bar is on the terminal
	progress   progress.Mode // of --progress
	quiet      bool          // show progress only if --progress asks for it

	// run does the work that the options describe. Its context ends when the user stops
	// the program, or when the reporter cannot write results to standard output.
	run     runner[O, S]
	options *O

	// watch records the throughput for a report until stop is called; nil for none.
	watch func(*counters.Set) (stop func())

	// finish prints the summary, and returns the outcome together with what the
	// summary adds to it. It is not called for a run that was refused.
	finish func(*S, outcome) outcome
}

// runCommand does what all commands have in common: it shows the progress of a job, and
// reports how the job has ended. The error is a refusal or the outcome of the command.
func runCommand[O, S any](cmd *cobra.Command, j job[O, S]) error {
	r := j.reporter
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	r.results.failed = cancel
	stopProgress, counts := func() {}, &counters.Set{}
	if !j.noProgress {
		size, isTerminal := terminal(cmd.ErrOrStderr())
		mode := j.progress.Resolve(isTerminal, j.quiet)
		counts.CountTotals = mode != progress.ModeNone
		if file := fileOf(cmd.ErrOrStderr()); isTerminal {
			r.screen.claim = func() bool {
				starting := counts.Phase.Load() == int32(counters.PhaseStarting)
				return !(j.mayWait && starting) && fsys.ClaimTerminal(file)
			}
		}
		bar := progress.Start(progress.Config{Mode: mode, Counters: counts, Screen: r.screen, Size: size, Look: looks(cmd.ErrOrStderr())})
		defer onStatusSignal(func() { r.print(bar.Status()) })()
		if mode == progress.ModeBar {
			defer onSuspend(func() { r.screen.Bar("") })()
		}
		defer bar.Stop()
		stopProgress = bar.Stop
	}
	stopWatch := func() {}
	if j.watch != nil {
		stopWatch = j.watch(counts)
	}
	summary, err := j.run(ctx, j.options, counts)
	stopWatch()
	stopProgress()
	r.results.Close()

	if refused, ok := errors.AsType[*failure.RefusedError](err); ok {
		return errors.Join(refused, r.logRefusal(refused))
	}
	if summary == nil {
		summary = new(S)
	}
	result := r.end(err, j.advice)
	failures, mismatches := r.counts()
	result = result.or(outcome{failed: failures > 0, mismatched: mismatches > 0})
	return j.finish(summary, result).err()
}
