package cli

import (
	"os"
	"syscall"
)

// statusSignals make the program print a status line.
var statusSignals = []os.Signal{syscall.SIGUSR1}
