//go:build !windows

package cli

import "os"

// canErase reports whether a terminal understands escape sequences such as [eraseRest].
func canErase(*os.File) bool { return true }
