package fsys

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// The calls below are those under os.Root: relative to a directory's handle.
// os.Root itself follows links inside its tree, cannot move or link from one
// directory to another, and sets no metadata by handle.

const (
	shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

	// openOptions open any object of the name; a link is not followed.
	openOptions = windows.FILE_OPEN_REPARSE_POINT | windows.FILE_OPEN_FOR_BACKUP_INTENT |
		windows.FILE_SYNCHRONOUS_IO_NONALERT

	readAttributes  = windows.FILE_READ_ATTRIBUTES
	writeAttributes = readAttributes | windows.FILE_WRITE_ATTRIBUTES
	dirAccess       = readAttributes | windows.FILE_LIST_DIRECTORY | windows.FILE_TRAVERSE
)

// wideName returns the name of one entry in UTF-16, and refuses any other text. Separators and
// the colon of streams would lead to another object, and no file system accepts the other
// characters. A text that is neither UTF-8 nor WTF-8 would be changed without an error. NUL, CON
// and names that end in a dot or a space are ordinary names here.
func wideName(name string) ([]uint16, error) {
	control := func(c rune) bool { return c < ' ' }
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `\/:*?"<>|`) || strings.ContainsFunc(name, control) {
		return nil, windows.ERROR_INVALID_NAME
	}
	wide, err := windows.UTF16FromString(name)
	if err != nil || windows.UTF16ToString(wide) != name {
		return nil, windows.ERROR_INVALID_NAME
	}
	return wide, nil
}

// openAt opens or creates the entry name of a directory. It does not follow a link.
func openAt(dir windows.Handle, name string, access, disposition, options uint32) (windows.Handle, error) {
	if _, err := wideName(name); err != nil {
		return windows.InvalidHandle, err
	}
	return ntCreate(dir, name, access, disposition, options|openOptions)
}

// reopen opens the object of a handle again with other rights, by an empty name relative to
// it, as ReOpenFile does.
func reopen(h windows.Handle, access uint32) (windows.Handle, error) {
	return ntCreate(h, "", access, windows.FILE_OPEN, openOptions)
}

// ntCreate always requests SYNCHRONIZE. Without it, NtCreateFile of Windows refuses
// FILE_SYNCHRONOUS_IO_NONALERT with STATUS_INVALID_PARAMETER; Wine does not.
func ntCreate(dir windows.Handle, name string, access, disposition, options uint32) (windows.Handle, error) {
	objectName, err := windows.NewNTUnicodeString(name)
	if err != nil {
		return windows.InvalidHandle, err
	}
	oa := windows.OBJECT_ATTRIBUTES{
		RootDirectory: dir,
		ObjectName:    objectName,
		Attributes:    windows.OBJ_CASE_INSENSITIVE, // other programs do the same; NTFS can have case-sensitive directories
	}
	oa.Length = uint32(unsafe.Sizeof(oa))
	var h windows.Handle
	var iosb windows.IO_STATUS_BLOCK
	err = windows.NtCreateFile(&h, access|windows.SYNCHRONIZE, &oa, &iosb, nil, windows.FILE_ATTRIBUTE_NORMAL, shareAll,
		disposition, options, 0, 0)
	runtime.KeepAlive(objectName)
	if err != nil {
		return windows.InvalidHandle, bare(err)
	}
	return h, nil
}

// bare converts a status, or an error that package os has wrapped, to a Win32 error, or to one
// of the errors of package syscall that errors.Is knows.
func bare(err error) error {
	var status windows.NTStatus
	if errors.As(err, &status) {
		switch status {
		case windows.STATUS_OBJECT_NAME_COLLISION:
			return syscall.EEXIST
		case windows.STATUS_FILE_IS_A_DIRECTORY:
			return syscall.EISDIR
		case windows.STATUS_DIRECTORY_NOT_EMPTY:
			return syscall.ENOTEMPTY
		case windows.STATUS_DELETE_PENDING:
			return windows.ERROR_DELETE_PENDING // the system's own table has ERROR_ACCESS_DENIED
		}
		return status.Errno()
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case windows.ERROR_ALREADY_EXISTS, windows.ERROR_FILE_EXISTS:
			return syscall.EEXIST
		}
		return errno
	}
	return err
}

// nameInformation is FILE_RENAME_INFORMATION, its Ex form and
// FILE_LINK_INFORMATION, which have one layout; flags is a BOOLEAN in two of them.
type nameInformation struct {
	flags      uint32
	root       windows.Handle
	nameLength uint32
	name       [256]uint16 // 255 is the longest name of NTFS, ReFS, FAT and exFAT
}

// setName renames or links the object of the handle h, according to class.
func setName(h windows.Handle, class, flags uint32, dir windows.Handle, name string) error {
	wide, err := wideName(name)
	if err != nil {
		return err
	}
	info := nameInformation{flags: flags, root: dir}
	if len(wide) > len(info.name) {
		return windows.ERROR_FILENAME_EXCED_RANGE
	}
	info.nameLength = uint32(2 * (len(wide) - 1))
	copy(info.name[:], wide)
	return setInformation(h, class, &info)
}

// Classes of NtSetInformationFile that x/sys/windows lacks or, as it does with
// FileLinkInformation, gives another number: wdm.h, FILE_INFORMATION_CLASS.
const (
	fileLinkInformation     = 11
	fileRenameInformationEx = 65
)

func setInformation[T any](h windows.Handle, class uint32, info *T) error {
	var iosb windows.IO_STATUS_BLOCK
	return windows.NtSetInformationFile(h, &iosb, (*byte)(unsafe.Pointer(info)), uint32(unsafe.Sizeof(*info)), class)
}

// notKnown reports whether an error means that the system or the file system (FAT, older
// Windows) has no POSIX form of a call. The caller then tries the old form.
func notKnown(err error) bool {
	return err == windows.STATUS_INVALID_INFO_CLASS || err == windows.STATUS_INVALID_PARAMETER ||
		err == windows.STATUS_NOT_SUPPORTED || err == windows.STATUS_NOT_IMPLEMENTED
}

// renamer is renameHandle or replaceHandle.
type renamer = func(h, dir windows.Handle, name string) error

// renameHandle gives the object of h, which was opened with DELETE, another name. It never
// replaces.
func renameHandle(h, dir windows.Handle, name string) error {
	return bare(setName(h, windows.FileRenameInformation, 0, dir, name))
}

// releaseTries is the number of attempts to rename, replace or remove a file that another
// process has open, and releaseWait the wait before the second one. Each wait is twice the one
// before, in sum 0.3 s. Scanners and indexers release files quickly.
const (
	releaseTries = 6
	releaseWait  = 10 * time.Millisecond
)

// untilReleased calls try until it does not return ERROR_SHARING_VIOLATION, and not more than
// releaseTries times.
func untilReleased(try func() error) error {
	for n, wait := 1, releaseWait; ; n, wait = n+1, 2*wait {
		err := try()
		if err != windows.ERROR_SHARING_VIOLATION || n == releaseTries {
			return err
		}
		time.Sleep(wait)
	}
}

// openToRemove opens an entry with the right to rename or remove it.
func openToRemove(dir windows.Handle, name string, access uint32) (h windows.Handle, err error) {
	err = untilReleased(func() error {
		h, err = openAt(dir, name, windows.DELETE|access, windows.FILE_OPEN, 0)
		return err
	})
	return h, err
}

// replaceHandle gives the object of h another name and replaces an existing object of that
// name, as rename of Unix does. The replaced object may be read-only, and may be open in
// processes that allow this. It returns ERROR_SHARING_VIOLATION if a process that does not
// allow it has the object open.
func replaceHandle(h, dir windows.Handle, name string) error {
	return untilReleased(func() error {
		err := replaceOnce(h, dir, name)
		if err != windows.ERROR_ACCESS_DENIED {
			return err
		}
		switch asked := mayRemove(dir, name); asked {
		case windows.ERROR_SHARING_VIOLATION:
			return asked // the error of the rename does not show that the object is open elsewhere
		case nil:
			return replaceOnce(h, dir, name) // perhaps it was closed after the rename
		}
		return err
	})
}

// mayRemove checks whether the object of a name can be opened with the right to remove it.
func mayRemove(dir windows.Handle, name string) error {
	h, err := openAt(dir, name, windows.DELETE, windows.FILE_OPEN, 0)
	if err == nil {
		windows.CloseHandle(h)
	}
	return err
}

// replaceOnce uses the old form of the call if there is no POSIX form. The old form refuses to
// replace a read-only file. So replaceOnce clears that attribute, and restores it if the call
// fails.
func replaceOnce(h, dir windows.Handle, name string) error {
	const flags = windows.FILE_RENAME_REPLACE_IF_EXISTS | windows.FILE_RENAME_POSIX_SEMANTICS |
		windows.FILE_RENAME_IGNORE_READONLY_ATTRIBUTE
	err := setName(h, fileRenameInformationEx, flags, dir, name)
	if !notKnown(err) {
		return bare(err)
	}
	err = setName(h, windows.FileRenameInformation, 1, dir, name)
	if err != windows.STATUS_ACCESS_DENIED && err != windows.STATUS_CANNOT_DELETE {
		return bare(err)
	}
	target, openErr := openAt(dir, name, writeAttributes, windows.FILE_OPEN, 0)
	if openErr != nil {
		return bare(err)
	}
	defer windows.CloseHandle(target)
	var i windows.ByHandleFileInformation
	if windows.GetFileInformationByHandle(target, &i) != nil || i.FileAttributes&windows.FILE_ATTRIBUTE_READONLY == 0 ||
		setAttributes(target, i.FileAttributes&^windows.FILE_ATTRIBUTE_READONLY) != nil {
		return bare(err)
	}
	err = setName(h, windows.FileRenameInformation, 1, dir, name)
	if err != nil {
		_ = setAttributes(target, i.FileAttributes)
	}
	return bare(err)
}

// deleteHandle removes the object of h, which was opened with DELETE and FILE_READ_ATTRIBUTES.
// The removal is immediate if the file system supports that; otherwise it happens when the
// last handle is closed. It also removes a read-only object, as unlink of Unix.
func deleteHandle(h windows.Handle) error {
	flags := uint32(windows.FILE_DISPOSITION_DELETE | windows.FILE_DISPOSITION_POSIX_SEMANTICS |
		windows.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)
	err := setInformation(h, windows.FileDispositionInformationEx, &flags)
	if !notKnown(err) {
		return bare(err)
	}
	var i windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &i); err == nil && i.FileAttributes&windows.FILE_ATTRIBUTE_READONLY != 0 {
		if w, err := reopen(h, writeAttributes); err == nil {
			_ = setAttributes(w, i.FileAttributes&^windows.FILE_ATTRIBUTE_READONLY)
			windows.CloseHandle(w)
		}
	}
	yes := byte(1)
	return bare(setInformation(h, windows.FileDispositionInformation, &yes))
}

// setAttributes sets attributes and does not change the times: zero means no change, for the
// attributes as well (FILE_BASIC_INFO).
func setAttributes(h windows.Handle, attributes uint32) error {
	info := struct {
		times      [4]int64
		attributes uint32
		_          uint32
	}{attributes: attributes}
	if attributes == 0 {
		info.attributes = windows.FILE_ATTRIBUTE_NORMAL
	}
	return windows.SetFileInformationByHandle(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&info)),
		uint32(unsafe.Sizeof(info)))
}
