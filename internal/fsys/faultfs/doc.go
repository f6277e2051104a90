// Package faultfs makes file systems for tests: operations that fail at a chosen
// moment (Injector), a disk that forgets what was not flushed (Disk), and a list of what
// is open (OpenFiles). Each belongs to one fsys.FS, so tests run beside each other.
package faultfs
