//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package cli

import (
	"os"
	"syscall"
)

// statusSignals ask for a status line; the terminal sends SIGINFO on ^T.
var statusSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGINFO}
