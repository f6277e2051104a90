package cli

import (
	"os"
	"os/signal"
	"sync"
)

// onStatusSignal calls show for each status signal until stop is called. stop waits for a call
// of show that has begun.
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
		signal.Stop(asked) // nothing sends to asked after this call
		close(asked)
		watcher.Wait()
	}
}
