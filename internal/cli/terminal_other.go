//go:build !windows

package cli

import "os"

// canErase tells whether a terminal understands [eraseRest].
func canErase(*os.File) bool { return true }
