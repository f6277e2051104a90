//go:build !linux || (!amd64 && !arm64)

package fsys

// KeepStdoutClosed does nothing. The Go runtime opens /dev/null in the place of a closed
// standard output, which looks the same as a /dev/null that the user gave. On Windows it
// opens nothing, and writes fail.
func KeepStdoutClosed() error { return nil }
