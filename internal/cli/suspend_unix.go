//go:build unix

package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// onSuspend calls hide each time the user presses Ctrl-Z, before the program is suspended, until
// stop is called. hide removes the bar, because the shell prints its prompt at the cursor.
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
			// Package signal cannot restore the default action of SIGTSTP. SIGTTOU has the same
			// default action: the kernel stops the process if a shell can continue it.
			_ = syscall.Kill(os.Getpid(), syscall.SIGTTOU)
			select {
			case <-continued:
			case <-time.After(time.Second): // the kernel did not stop the process
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
