package fsys

// Umask returns 0: Windows has no file mode creation mask.
var Umask = func() uint32 { return 0 }

// OddMode is a mode that new files never have and that Chmod can set: read-only.
const OddMode = 0o444

// WritesMoveTimes says that a write through a descriptor sets the modification time, also after
// the times were set through it. Windows keeps times that a program has set until the handle is
// closed (FILE_BASIC_INFORMATION).
const WritesMoveTimes = false

// Identity returns 0 and 0: owners are no numbers on Windows.
func Identity() (uid, gid uint32) { return 0, 0 }

// Private is always true: Info does not have the owner and the ACL of an object.
func (i Info) Private() bool { return true }

// Privileged is false: owners and devices are not copied on Windows.
func Privileged() bool { return false }

// OpenLimit returns how many handles the process should have open. Windows allows 16 million,
// but each uses kernel memory.
func OpenLimit() int { return 8192 }
