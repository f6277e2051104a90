package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/progress"
)

// watch is what stands beside a run: the progress, and the answer to a signal
// that asks for the state.
type watch struct {
	counters *counters.Set
	bar      *progress.Progress
	noStatus func() // ends the answers
}

// startWatch begins to watch a run on standard error, which screen owns. The
// caller stops the bar when the run has ended, and closes the watch when
// everything is told.
func startWatch(cmd *cobra.Command, screen *printer, asked progress.Mode, quiet bool) *watch {
	columns, isTerminal := terminal(cmd.ErrOrStderr())
	mode := asked.Resolve(isTerminal, quiet)
	counters := &counters.Set{CountTotals: mode != progress.ModeNone}
	bar := progress.Start(progress.Config{Mode: mode, Counters: counters, Screen: screen, Width: columns})
	return &watch{counters, bar, onStatusSignal(func() { screen.Line("sealift: " + bar.Status()) })}
}

func (w *watch) close() {
	w.bar.Stop()
	w.noStatus()
}
