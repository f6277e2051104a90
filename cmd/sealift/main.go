// Sealift copies directory trees and writes, from the same single read, a
// manifest that sha256sum accepts.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed65876f4f/sealift/internal/cli"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// oneRequest is how long further signals count as part of the first one: timeout(1) sends
// two, to the process and to its group.
const oneRequest = 500 * time.Millisecond

func main() {
	if err := fsys.KeepStdoutClosed(); err != nil {
		fmt.Fprintf(os.Stderr, "sealift: standard output: %v\n", err)
		os.Exit(1)
	}
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of the write to it
	// The first timer makes the runtime open descriptors. If none is left then, the runtime
	// aborts.
	time.AfterFunc(time.Hour, func() {}).Stop()
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) { // ignored under nohup, or behind & in a script
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
