// Package fsys contains everything that differs between operating systems.
//
// Every object below a tree's root is reached through the descriptor of its parent directory
// by a single name, never by a path. So a symlink that is swapped into a tree cannot lead an
// operation outside it. Opening never follows a link, creating never replaces, and metadata is
// set by descriptor. Only OpenRoot and the other functions for paths of the user take a path.
//
// Errors are the bare errors of the system (a syscall.Errno on Unix), without a path. The
// caller knows which file it works on, and adds the path once.
//
// An exported method that all systems have exists once. It calls FS.Fault, makes the system's
// own call, and reports the change to FS.Disk. The system's call is a method in lower case
// with the same signature, in the files of each system. If only Linux has a call, other.go has
// the methods for all other systems. An operation that a system does not support returns an
// error for which Unsupported reports true.
package fsys
