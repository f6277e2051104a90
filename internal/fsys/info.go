package fsys

import (
	"cmp"
	"errors"
)

// Kind is the type of a directory entry.
type Kind uint8

// The kinds of directory entries. Unknown means that a listing did not tell;
// Irregular is anything that cannot be copied as such (a Windows reparse point,
// a Solaris door).
const (
	Unknown Kind = iota
	Regular
	Directory
	Symlink
	Fifo
	Socket
	CharDevice
	BlockDevice
	Irregular
)

func (k Kind) String() string {
	return [...]string{
		"special file", "regular file", "directory", "symbolic link", "fifo", "socket",
		"character device", "block device", "special file",
	}[min(k, Irregular)]
}

// ID identifies an object: device and inode, or volume and file index.
type ID struct{ Dev, Ino uint64 }

// Time is a file's time stamp. Unlike time.Time it covers every value that a
// file system can hold and compares with ==.
type Time struct {
	Sec  int64 // seconds since 1970-01-01 UTC
	Nsec int64 // nanoseconds, 0 to 999,999,999
}

// Compare is -1, 0 or +1 as t is before, equal to, or after u.
func (t Time) Compare(u Time) int {
	if c := cmp.Compare(t.Sec, u.Sec); c != 0 {
		return c
	}
	return cmp.Compare(t.Nsec, u.Nsec)
}

// Within reports whether t and u differ by less than granularity nanoseconds;
// a granularity of 1 demands equality.
func (t Time) Within(u Time, granularity int64) bool {
	if t == u {
		return true
	}
	if t.Compare(u) < 0 {
		t, u = u, t
	}
	sec := uint64(t.Sec) - uint64(u.Sec) // exact for t after u, however far
	// Beyond 4 s is beyond the coarsest granularity known, 2 s on FAT.
	return sec <= 4 && int64(sec)*1e9+t.Nsec-u.Nsec < granularity
}

// Info is the result of one stat call.
type Info struct {
	ID     ID
	Kind   Kind
	Mode   uint32 // permission bits with setuid, setgid and sticky: 07777; and ModeAttributes
	Nlink  uint64
	UID    uint32
	GID    uint32
	Rdev   uint64 // for devices, in the system's own encoding
	Size   int64  // bytes
	Blocks int64  // allocated units of 512 bytes
	Atime  Time
	Mtime  Time
	Ctime  Time // zero where the system has none
	Btime  Time // creation; zero where it cannot be set
}

// SameState reports whether i and j describe one object to which nothing was done in
// between.
func (i Info) SameState(j Info) bool {
	return i.ID == j.ID && i.Size == j.Size && i.Mtime == j.Mtime && i.Ctime == j.Ctime
}

// Xattr is one extended attribute. POSIX ACLs are extended attributes too.
type Xattr struct {
	Name  string
	Value []byte
}

// ErrUnread says that extended attributes are there whose values are refused.
var ErrUnread = errors.New("refused")

// NotKeptError says that an object has something that is none of the extended
// attributes, and that no copy gets: alternate data streams, encryption. Unsupported
// holds for it.
type NotKeptError struct{ What string }

func (e *NotKeptError) Error() string { return e.What + " cannot be kept" }

// Is makes Unsupported hold.
func (e *NotKeptError) Is(target error) bool { return target == errors.ErrUnsupported }

// Permission bits outside the rwx ones, as in Info.Mode.
const (
	ModeSetuid = 0o4000
	ModeSetgid = 0o2000
	ModeSticky = 0o1000

	// ModeAttributes is where Info.Mode has the attributes of Windows; no other system
	// sets these bits. Chmod leaves the attributes alone where all of them are zero.
	ModeAttributes = 0xffff << 16
)

// Reserved is the prefix of every name that Sealift makes for itself: the
// journal, temporaries, set-aside files. Sources' files of such names are
// leftovers of an unfinished copy.
const Reserved = ".sealift-"

// MaxName is the longest name of a directory entry on the file systems of note.
const MaxName = 255 // bytes
