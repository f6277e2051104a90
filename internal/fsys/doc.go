// Package fsys is the narrow seam between Sealift and operating systems.
//
// Everything below a tree's root is reached through the descriptor of its
// parent directory by a single name, never by a path: a symlink swapped into a
// tree cannot lead an operation outside it. Opening never follows a link,
// creating never replaces, and metadata is set by descriptor. Only OpenRoot
// takes a path, the one the user typed.
//
// Errors are the bare errors of the system (a syscall.Errno on Unix), without a
// path: the caller knows which file it works on and says so once.
//
// Platform code lives in pairs of files with one signature each; what a system
// cannot do returns an error for which Unsupported reports true.
package fsys
