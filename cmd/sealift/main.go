// Sealift copies directory trees and writes, from the same single read, a
// manifest that sha256sum accepts.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed65876f4f/sealift/internal/cli"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of the write to it
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) { // as under nohup, or behind & in a script
			signal.Notify(caught, s)
		}
	}
	go func() {
		s := <-caught
		signal.Stop(caught) // the second one kills at once
		cancel(cli.Interrupt{Signal: s})
	}()
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
