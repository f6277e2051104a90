//go:build unix

package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// onSuspend calls hide before the program stops because the user has pressed Ctrl-Z, until
// the returned function is called. The shell prints where the cursor is.
func onSuspend(hide func()) (stop func()) {
	if signal.Ignored(syscall.SIGTSTP) {
		return func() {}
	}
	asked, continued, done := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	var watcher sync.WaitGroup
	signal.Notify(asked, syscall.SIGTSTP)
	signal.Notify(continued, syscall.SIGCONT)
	watcher.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-asked:
			}
			hide()
			// Package signal does not give SIGTSTP its default action back. SIGTTOU has the
			// same one: the system stops the program, but only where a shell can continue it.
			_ = syscall.Kill(os.Getpid(), syscall.SIGTTOU)
			select {
			case <-continued:
			case <-time.After(time.Second): // it was not stopped
			}
		}
	})
	return func() {
		close(done)
		watcher.Wait()
		signal.Stop(asked)
		signal.Stop(continued)
	}
}
