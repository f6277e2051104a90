// Package refused has one comment for each rule, so that make lint shows that comments are read.
package refused

// Words returns what the disk tells.
func Words() {}

// Opening is a comment. What calls it gets nothing.
func Opening() {}

// Length reads the source once, and while it reads, it computes all digests, and it writes
// the same bytes to every destination, and when a destination fails, it stops writing there.
func Length() {}
