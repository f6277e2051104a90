package fsys

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	errNotSupported = windows.ERROR_NOT_SUPPORTED // for operations that Windows does not have
	errNoXattr      = windows.ERROR_NOT_FOUND
)

// Object is an open file, directory or other entry whose metadata can be read and set through
// its handle.
type Object struct {
	h          windows.Handle
	descriptor *Descriptor // a value for tests; nil without an FS
}

func (o *Object) stat() (Info, error) { return infoOf(o.h) }

// keptAttributes are the attributes that a copy keeps. Every file system has them. Other
// attributes describe how a file system stores the file (compressed, sparse, offline).
const keptAttributes = windows.FILE_ATTRIBUTE_HIDDEN | windows.FILE_ATTRIBUTE_SYSTEM | windows.FILE_ATTRIBUTE_ARCHIVE

// The place of the attributes in Info.Mode, and the bit that marks them as present.
const (
	attributesShift = 16
	attributesKnown = 1 << 31
)

// modeOf converts attributes to a mode. For a file, read-only clears the owner's right to
// write. For a directory it prevents no writes and is one more attribute.
func modeOf(attributes uint32) uint32 {
	mode := uint32(0o644)
	switch {
	case attributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0:
		mode = 0o755
	case attributes&windows.FILE_ATTRIBUTE_READONLY != 0:
		mode = 0o444
	}
	return mode | attributesKnown | attributes&keptOf(attributes)<<attributesShift
}

// keptOf returns the attributes that a copy keeps of an object with the attributes.
func keptOf(attributes uint32) uint32 {
	if attributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0 {
		return keptAttributes | windows.FILE_ATTRIBUTE_READONLY
	}
	return keptAttributes
}

// attributesOf returns the attributes old, changed as the mode requires.
func attributesOf(mode, old uint32) uint32 {
	if mode&attributesKnown != 0 {
		kept := keptOf(old)
		old = old&^kept | mode>>attributesShift&kept
	}
	if old&windows.FILE_ATTRIBUTE_DIRECTORY == 0 {
		old &^= windows.FILE_ATTRIBUTE_READONLY
		if mode&0o200 == 0 {
			old |= windows.FILE_ATTRIBUTE_READONLY
		}
	}
	return old
}

func (o *Object) chown(int, int) error { return errNotSupported }

func (o *Object) chmod(mode uint32) error {
	var i windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(o.h, &i); err != nil {
		return err
	}
	attributes := attributesOf(mode, i.FileAttributes)
	if attributes == i.FileAttributes {
		return nil
	}
	return o.with(writeAttributes, func(h windows.Handle) error { return setAttributes(h, attributes) })
}

// setTimes sets times in steps of 100 ns, or coarser ones of the file system, from 1601 on.
func (o *Object) setTimes(atime, mtime, btime Time) error {
	access, write := filetimeOf(atime), filetimeOf(mtime)
	var creation *windows.Filetime
	if btime != (Time{}) {
		c := filetimeOf(btime)
		creation = &c
	}
	return o.with(writeAttributes, func(h windows.Handle) error {
		return windows.SetFileTime(h, creation, &access, &write)
	})
}

// xattrs never returns any. Alternate data streams, extended attributes of OS/2 and ACLs are
// different things and are not copied. If the file system has no streams, Unsupported holds
// for the error.
func (o *Object) xattrs(func(name string) bool) ([]Xattr, error) {
	var i windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(o.h, &i); err != nil {
		return nil, err
	}
	if i.FileAttributes&windows.FILE_ATTRIBUTE_ENCRYPTED != 0 {
		return nil, &NotKeptError{What: "encryption (EFS)"}
	}
	var list [1 << 9]uint64 // FILE_STREAM_INFO with its alignment
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&list)), unsafe.Sizeof(list))
	err := windows.GetFileInformationByHandleEx(o.h, windows.FileStreamInfo, &raw[0], uint32(len(raw)))
	switch err {
	case windows.ERROR_HANDLE_EOF: // a directory without streams
		return nil, nil
	case windows.ERROR_MORE_DATA:
		err = nil
	case windows.ERROR_INVALID_PARAMETER, windows.ERROR_INVALID_LEVEL: // FAT, or a server without streams
		err = errNotSupported
	}
	if err == nil && hasStreams(raw) {
		err = &NotKeptError{What: "alternate data streams"}
	}
	return nil, err
}

// hasStreams reports whether a list of FILE_STREAM_INFO has more than the file's own data,
// which has no name.
func hasStreams(list []byte) bool {
	const data = "::$DATA"
	const head = 24 // NextEntryOffset, StreamNameLength, StreamSize, StreamAllocationSize
	for len(list) >= head {
		next, length := binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:])
		if length != 0 && length != 2*uint32(len(data)) { // no other name is as short: ":x:$DATA"
			return true
		}
		if next == 0 || uint64(next) > uint64(len(list)) {
			break
		}
		list = list[next:]
	}
	return false
}

func (o *Object) setxattr(string, []byte) error { return errNotSupported }

func (o *Object) removexattr(string) error { return errNoXattr }

func (o *Object) release() error { return windows.CloseHandle(o.h) }

// with runs f on the object's handle, or on a new handle with more rights if those of the
// first do not suffice.
func (o *Object) with(access uint32, f func(windows.Handle) error) error {
	err := f(o.h)
	if err != windows.ERROR_ACCESS_DENIED {
		return err
	}
	h, err := reopen(o.h, access)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return f(h)
}

// infoOf leaves Ctime zero: any program can set the change time of NTFS, so it proves nothing.
func infoOf(h windows.Handle) (Info, error) {
	var i windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &i); err != nil {
		return Info{}, err
	}
	info := Info{
		ID:    ID{Dev: uint64(i.VolumeSerialNumber), Ino: uint64(i.FileIndexHigh)<<32 | uint64(i.FileIndexLow)},
		Kind:  Regular,
		Mode:  modeOf(i.FileAttributes),
		Nlink: uint64(i.NumberOfLinks),
		Size:  int64(i.FileSizeHigh)<<32 | int64(i.FileSizeLow),
		Atime: timeOf(i.LastAccessTime),
		Mtime: timeOf(i.LastWriteTime),
		Btime: timeOf(i.CreationTime),
	}
	if i.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0 {
		info.Kind = Directory
	}
	if i.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		var tag struct{ attributes, tag uint32 } // FILE_ATTRIBUTE_TAG_INFO
		err := windows.GetFileInformationByHandleEx(h, windows.FileAttributeTagInfo, (*byte)(unsafe.Pointer(&tag)),
			uint32(unsafe.Sizeof(tag)))
		if err != nil {
			return Info{}, err
		}
		info.Kind = kindOfReparsePoint(tag.tag, info.Kind)
	}
	var standard struct { // FILE_STANDARD_INFO
		allocation, end          int64
		links                    uint32
		deletePending, directory bool
	}
	if windows.GetFileInformationByHandleEx(h, windows.FileStandardInfo, (*byte)(unsafe.Pointer(&standard)),
		uint32(unsafe.Sizeof(standard))) == nil {
		info.Blocks = (standard.allocation + 511) / 512
	}
	return info, nil
}

// kindOfReparsePoint distinguishes links and junctions from files that are stored in another
// way (deduplicated, compressed, in a cloud): IsReparseTagNameSurrogate of ntifs.h.
func kindOfReparsePoint(tag uint32, otherwise Kind) Kind {
	const surrogate, afUnix = 0x20000000, 0x80000023
	switch {
	case tag == windows.IO_REPARSE_TAG_SYMLINK:
		return Symlink
	case tag == afUnix:
		return Socket
	case tag&surrogate != 0:
		return Irregular
	}
	return otherwise
}

// A FILETIME counts 100 ns since 1601.
const (
	ticksPerSecond = 10_000_000
	secondsTo1970  = 11644473600
)

func timeOf(ft windows.Filetime) Time {
	ticks := int64(ft.HighDateTime)<<32 | int64(ft.LowDateTime)
	return Time{Sec: ticks/ticksPerSecond - secondsTo1970, Nsec: ticks % ticksPerSecond * 100}
}

// filetimeOf limits a time to the range of FILETIME. It never returns 0, which would mean no
// change.
func filetimeOf(t Time) windows.Filetime {
	const last = 1<<63 - 1
	ticks := int64(1)
	switch sec := t.Sec; {
	case sec > last/ticksPerSecond-secondsTo1970-1:
		ticks = last
	case sec >= -secondsTo1970:
		ticks = max((sec+secondsTo1970)*ticksPerSecond+t.Nsec/100, 1)
	}
	return windows.Filetime{LowDateTime: uint32(ticks), HighDateTime: uint32(ticks >> 32)}
}
