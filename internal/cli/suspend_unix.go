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
			// The system stops the program only where a shell can continue it, so the signal
			// is sent again, and not SIGSTOP.
			signal.Reset(syscall.SIGTSTP)
			_ = syscall.Kill(os.Getpid(), syscall.SIGTSTP)
			select {
			case <-continued:
			case <-time.After(time.Second):
			}
			signal.Notify(asked, syscall.SIGTSTP)
		}
	})
	return func() {
		close(done)
		watcher.Wait()
		signal.Stop(asked)
		signal.Stop(continued)
	}
}
