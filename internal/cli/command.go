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

// runner is the function that does the work of a command, such as [engine.Run]. Tests pass
// their own. O is the type of its options, S that of its summary.
type runner[O, S any] func(context.Context, *O, *counters.Set) (*S, error)

// job describes the work of one command after its flags were checked. It holds everything in
// which commands differ.
type job[O, S any] struct {
	reporter *reporter
	advice   string // next step that is added to the message of a stop by a signal

	noProgress bool // show no progress, and do not handle the status signal
	mayWait    bool // draw no bar during the start: an earlier command of the pipeline may have one
	quiet      bool // show progress only if --progress requests it, as with --quiet

	// run does the work that the options describe. Its context is cancelled when a signal
	// stops the program, or when results cannot be written to standard output.
	run     runner[O, S]
	options *O

	// An HTML report has the throughput of each target, and that of what is only read, under the name read. It
	// has none if read is "".
	targets []string
	read    string

	// finish prints the summary. It returns the given outcome, with the failures that the
	// summary counts. A refused run does not call it.
	finish func(*S, outcome) outcome
}

// runCommand runs a job, shows its progress, and reports how it ended. The error is a refusal
// or an [outcome].
func runCommand[O, S any](cmd *cobra.Command, j job[O, S]) error {
	if !begins(cmd.Context()) {
		return context.Cause(cmd.Context())
	}
	r := j.reporter
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	r.results.failed = cancel
	stopProgress, counts := func() {}, &counters.Set{}
	if !j.noProgress {
		size, isTerminal := terminal(cmd.ErrOrStderr())
		mode := r.progress.Resolve(isTerminal, r.quiet || j.quiet)
		counts.CountTotals = mode != progress.ModeNone
		if file := fileOf(cmd.ErrOrStderr()); isTerminal {
			r.screen.claim = func() bool {
				starting := counts.Phase.Load() == int32(counters.PhaseStarting)
				return !(j.mayWait && starting) && fsys.ClaimTerminal(file)
			}
		}
		bar := progress.Start(progress.Config{Mode: mode, Counters: counts, Screen: r.screen, Size: size, Look: looks(cmd.ErrOrStderr()), Running: r.progress == progress.ModeBar})
		defer onStatusSignal(func() { r.print(bar.Status()) })()
		if mode == progress.ModeBar {
			defer onSuspend(func() { r.screen.Bar("") })()
		}
		defer bar.Stop()
		stopProgress = bar.Stop
	}
	stopWatch := r.page.watch(counts, j.targets, j.read)
	summary, err := j.run(ctx, j.options, counts)
	stopWatch()
	stopProgress()
	r.results.Close()

	if errors.As(err, new(*failure.RefusedError)) {
		return errors.Join(err, r.metrics.refused(r), r.logRefusal(err))
	}
	if summary == nil {
		summary = new(S)
	}
	result := r.end(err, j.advice)
	failures, mismatches := r.counts()
	result = result.or(outcome{failed: failures > 0, mismatched: mismatches > 0})
	return j.finish(summary, result).err()
}
