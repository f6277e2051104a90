// Package dest is one destination of a copy: its file systems, its durability, its free space, and what it
// keeps of replaced files.
//
// A FileSystems value has the mounted file systems of a destination: that of its root, and those that are
// mounted below it. It probes each one when the first directory on it is opened, and flushes all of
// them.
package dest
