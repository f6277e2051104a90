package cli

import (
	"os"
	"syscall"
)

// statusSignals make the program print a status line. The terminal sends SIGINFO for Ctrl-T.
var statusSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGINFO}
