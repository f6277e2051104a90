//go:build !linux

package fsys

import "os"

// ClaimTerminal does nothing: not every system locks terminals.
func ClaimTerminal(*os.File) bool { return true }
