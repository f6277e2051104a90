package fsys

// Op names an operation of this package for Fault.
type Op string

// The operations that can fail. Closing what was only read is not among them:
// nothing can be lost by it.
const (
	OpOpen        Op = "open"
	OpOpenDir     Op = "opendir"
	OpList        Op = "list"
	OpStat        Op = "stat"
	OpRead        Op = "read"
	OpReadlink    Op = "readlink"
	OpCreate      Op = "create"
	OpWrite       Op = "write"
	OpTruncate    Op = "truncate"
	OpChown       Op = "chown"
	OpChmod       Op = "chmod"
	OpTimes       Op = "utimens"
	OpGetXattr    Op = "getxattr"
	OpSetXattr    Op = "setxattr"
	OpMkdir       Op = "mkdir"
	OpSymlink     Op = "symlink"
	OpMknod       Op = "mknod"
	OpLink        Op = "link"
	OpRename      Op = "rename"
	OpRemove      Op = "remove"
	OpSync        Op = "sync"
	OpSyncFS      Op = "syncfs"
	OpSyncDrive   Op = "syncdrive"
	OpWriteback   Op = "writeback"
	OpDropCache   Op = "dropcache"
	OpClone       Op = "clone"
	OpCopyRange   Op = "copyrange"
	OpPreallocate Op = "preallocate"
	OpPunch       Op = "punch"
	OpCloseFile   Op = "close"
	OpLock        Op = "lock"
)

// Fault, when not nil, is asked before every operation and can make it fail.
// name is the entry's name where the operation has one. Tests set it before the
// first operation and clear it after the last; it is called concurrently.
var Fault func(op Op, name string) error

func fault(op Op, name string) error {
	if Fault == nil {
		return nil
	}
	return Fault(op, name)
}
