// Package fsys is the narrow seam between Sealift and operating systems.
//
// Every object below a tree's root is reached through the descriptor of its parent
// directory by a single name, never by a path. So a symlink that is swapped into a tree
// cannot lead an operation outside it. Opening never follows a link,
// creating never replaces, and metadata is set by descriptor. Only OpenRoot
// takes a path, the one the user typed.
//
// Errors are the bare errors of the system (a syscall.Errno on Unix), without a
// path: the caller knows which file it works on and says so once.
//
// An exported method that all systems have exists once. It asks the FS, makes the
// system's own call and reports the change to the Disk. The call is a method in lower
// case with the same signature in the files of each system. other.go has the answers of
// all systems but Linux to calls that only Linux has. An operation that a system
// does not support returns an error for which Unsupported reports true.
package fsys
