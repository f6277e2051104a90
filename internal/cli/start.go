package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
)

// startTime is how long a command may still need to begin its job after a signal, and each write to
// a log that is a pipe. A job that has begun ends cleanly.
const startTime = time.Second

// startKey is the key of the context's *atomic.Bool that decides once: true means that the job of a
// command has begun, or that it must not begin any more.
type startKey struct{}

// executeUntilSignal executes the command line of root. Before its job begins, a command can wait
// without end: for the reader of a pipe that is the log, or for a list of files. If a signal comes
// meanwhile, executeUntilSignal leaves the command, and returns the [Interrupt].
func executeUntilSignal(ctx context.Context, root *cobra.Command) (*cobra.Command, error) {
	var cmd *cobra.Command
	var err error
	begun, done := new(atomic.Bool), make(chan struct{})
	go func() {
		defer close(done)
		cmd, err = root.ExecuteContextC(context.WithValue(ctx, startKey{}, begun))
	}()
	select {
	case <-done:
		return cmd, err
	case <-ctx.Done():
	}
	select {
	case <-done:
		return cmd, err
	case <-time.After(startTime):
	}
	if cause := context.Cause(ctx); errors.As(cause, new(Interrupt)) && begun.CompareAndSwap(false, true) {
		return root, cause
	}
	<-done
	return cmd, err
}

// begins reports whether the job of a command with the context ctx may begin.
func begins(ctx context.Context) bool {
	begun, ok := ctx.Value(startKey{}).(*atomic.Bool)
	return !ok || begun.CompareAndSwap(false, true)
}
