//go:build !darwin

package fsys

// mountedAt returns "": Linux has a mount table, and Windows has no directory for disks.
func mountedAt(string) string { return "" }
