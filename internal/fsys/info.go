package fsys

import (
	"cmp"
	"errors"
	"strings"
)

// Kind is the type of a directory entry.
type Kind uint8

// The kinds of directory entries. Unknown means that the listing did not contain the kind.
// Irregular is anything that cannot be copied as such (a Windows reparse point, a Solaris
// door).
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

// Time is a file's time stamp. Unlike time.Time, it can represent every value that a file
// system can hold, and == compares it.
type Time struct {
	Sec  int64 // seconds since 1970-01-01 UTC
	Nsec int64 // nanoseconds, 0 to 999,999,999
}

// Compare returns -1, 0 or +1 if t is before, equal to, or after u.
func (t Time) Compare(u Time) int {
	if c := cmp.Compare(t.Sec, u.Sec); c != 0 {
		return c
	}
	return cmp.Compare(t.Nsec, u.Nsec)
}

// Within reports whether t and u differ by less than granularity nanoseconds. With a
// granularity of 1, they must be equal.
func (t Time) Within(u Time, granularity int64) bool {
	if t == u {
		return true
	}
	if t.Compare(u) < 0 {
		t, u = u, t
	}
	sec := uint64(t.Sec) - uint64(u.Sec) // exact if t is after u, for any distance
	// 4 s is more than the coarsest known granularity, 2 s on FAT.
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
	Rdev   uint64 // device number of a device node, in the system's own encoding
	Size   int64  // bytes
	Blocks int64  // allocated units of 512 bytes
	Atime  Time
	Mtime  Time
	Ctime  Time // time of the last change; zero if the system has none
	Btime  Time // time of creation; zero if it cannot be set
}

// SameState reports whether i and j describe one object to which nothing was done in
// between.
func (i Info) SameState(j Info) bool {
	return i.ID == j.ID && i.Size == j.Size && i.Mtime == j.Mtime && i.Ctime == j.Ctime
}

// PlantedIn reports whether another user may have made the entry i of the directory dir to deceive
// the user us. Then dir is sticky, as /tmp is, and i belongs neither to us nor to the owner of dir.
// Every user may create entries in a sticky directory, but not change those of others. The kernel
// has the same rule for opening files (protected_regular in proc_sys_fs(5)).
func (i Info) PlantedIn(dir Info, us uint32) bool {
	return dir.Mode&ModeSticky != 0 && i.UID != us && i.UID != dir.UID
}

// Xattr is one extended attribute. POSIX ACLs are extended attributes too.
type Xattr struct {
	Name  string
	Value []byte
}

// ErrUnread means that an object has extended attributes whose values this user must not read.
var ErrUnread = errors.New("refused")

// NotKeptError means that an object has data that no copy gets and that is no extended
// attribute: alternate data streams, encryption. Unsupported holds for it.
type NotKeptError struct{ What string }

func (e *NotKeptError) Error() string { return e.What + " cannot be kept" }

// Is makes Unsupported return true.
func (e *NotKeptError) Is(target error) bool { return target == errors.ErrUnsupported }

// Permission bits outside the rwx ones, as in Info.Mode.
const (
	ModeSetuid = 0o4000
	ModeSetgid = 0o2000
	ModeSticky = 0o1000

	// ModeAttributes are the bits of Info.Mode for the attributes of Windows. No other system
	// sets these bits. Chmod does not change the attributes if all these bits are zero.
	ModeAttributes = 0xffff << 16
)

// Reserved is the prefix of every name that Sealift makes for its own files: journals,
// temporaries, files that were set aside. Other programs may use it, too: IsTemp and
// incomplete.IsReserved recognize the names that no copy gets.
const Reserved = ".sealift-"

// IsMadeByFileSystem reports whether a file system has made the entry of this name. FUSE, NFS, SMB,
// NTFS-3G and AFS rename files that are removed while they are open. macOS describes a file in an
// AppleDouble file, and a directory in .DS_Store.
func IsMadeByFileSystem(name string) bool {
	for _, prefix := range []string{".fuse_hidden", ".nfs", ".smb", ".ghost-ntfs-3g-", ".__afs", "._"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == ".DS_Store"
}

// MaxName is the length of the longest name of a directory entry on common file systems.
const MaxName = 255 // bytes
