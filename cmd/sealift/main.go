// Sealift copies directory trees. In the same single read, it computes SHA-256 digests and writes
// a manifest that sha256sum accepts.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed65876f4f/sealift/internal/cli"
)

// oneRequest is the time after the first signal in which further signals are ignored. timeout(1)
// sends two: one to the process and one to its group.
const oneRequest = 500 * time.Millisecond

func main() {
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of the write to it
	// The first timer makes the runtime open descriptors, and the runtime aborts if none is left.
	// Start one now, before the program has opened files.
	time.AfterFunc(time.Hour, func() {}).Stop()
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup and & in a script start programs with ignored signals
			signal.Notify(caught, s)
		}
	}
	go func() {
		s := <-caught
		cancel(cli.Interrupt{Signal: s})
		time.Sleep(oneRequest)
		signal.Stop(caught) // from now on a signal kills at once
	}()
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
