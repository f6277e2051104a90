//go:build !linux

package fsys

import "time"

// Elapsed returns the time since an arbitrary instant.
func Elapsed() time.Duration { return time.Since(started) }

var started = time.Now()
