package fsys

// Umask returns the process's file mode creation mask: Windows has none.
var Umask = func() uint32 { return 0 }

// OddMode is a mode that no new file has, and that the system can give to one: a
// read-only file.
const OddMode = 0o444

// WritesMoveTimes says that a write through a descriptor sets the modification time, also after
// the times were set through it. Windows keeps times that a program has set until the handle is
// closed (FILE_BASIC_INFORMATION).
const WritesMoveTimes = false

// Identity returns the user and group that new files get: no numbers here.
func Identity() (uid, gid uint32) { return 0, 0 }

// Private is always true: Info does not have the owner and the ACL of an object.
func (i Info) Private() bool { return true }

// Privileged is false: owners and devices are not copied by anybody.
func Privileged() bool { return false }

// OpenLimit returns how many handles the process should have open. The system
// allows 16 million; each takes kernel memory.
func OpenLimit() int { return 8192 }
