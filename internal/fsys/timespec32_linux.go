//go:build linux && (386 || arm)

package fsys

// secondsOf cuts a time to what a 32-bit time_t holds.
func secondsOf(t Time) int32 { return int32(min(max(t.Sec, -1<<31), 1<<31-1)) }
