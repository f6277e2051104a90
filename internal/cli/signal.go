package cli

import (
	"os"
	"os/signal"
	"sync"
)

// onStatusSignal calls show whenever the user asks for the state by a signal,
// until the returned function is called; that one waits for a call under way.
func onStatusSignal(show func()) (stop func()) {
	if len(statusSignals) == 0 {
		return func() {}
	}
	asked := make(chan os.Signal, 1)
	var watcher sync.WaitGroup
	signal.Notify(asked, statusSignals...)
	watcher.Go(func() {
		for range asked {
			show()
		}
	})
	return func() {
		signal.Stop(asked) // which sends nothing more
		close(asked)
		watcher.Wait()
	}
}
