package fsys

import (
	"encoding/binary"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

// A symbolic link of Windows is a file or a directory with a reparse point. Its data is a
// SymbolicLinkReparseBuffer in a REPARSE_DATA_BUFFER (ntifs.h):
//
//	offset  bytes
//	0       4      IO_REPARSE_TAG_SYMLINK
//	4       2      length of everything after offset 8
//	6       2      reserved
//	8       2, 2   offset after 20 and length of the target in the form of NT
//	12      2, 2   the same of the target that programs show
//	16      4      linkIsRelative, or 0
//	20             the two targets in UTF-16
const (
	reparseHead    = 8
	linkHead       = 20
	linkIsRelative = 1 // SYMLINK_FLAG_RELATIVE
)

// symlink creates a link to a directory if like is one, and otherwise a link to a file. Windows
// does not follow a link of the wrong kind.
func (d *Dir) symlink(target, name string, like Info) error {
	data, err := encodeLink(target)
	if err != nil {
		return err
	}
	options := uint32(windows.FILE_NON_DIRECTORY_FILE)
	if like.Mode&0o111 != 0 { // see modeOf
		options = windows.FILE_DIRECTORY_FILE
	}
	defer gainLinkPrivilege()()
	h, err := openAt(d.h, name, writeAttributes|windows.DELETE, windows.FILE_CREATE, options)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	var n uint32
	err = windows.DeviceIoControl(h, windows.FSCTL_SET_REPARSE_POINT, &data[0], uint32(len(data)), nil, 0, &n, nil)
	if err != nil {
		_ = deleteHandle(h) // the entry has no reparse point, so it is no link
	}
	return err
}

func (d *Dir) readlink(name string) (string, error) {
	h, err := openAt(d.h, name, readAttributes, windows.FILE_OPEN, 0)
	if err != nil {
		return "", err
	}
	defer windows.CloseHandle(h)
	info, err := infoOf(h)
	if err != nil {
		return "", err
	}
	if info.Kind != Symlink {
		return "", syscall.EINVAL
	}
	data := make([]byte, windows.MAXIMUM_REPARSE_DATA_BUFFER_SIZE)
	var n uint32
	err = windows.DeviceIoControl(h, windows.FSCTL_GET_REPARSE_POINT, nil, 0, &data[0], uint32(len(data)), &n, nil)
	if err != nil {
		return "", err
	}
	return decodeLink(data[:n])
}

// encodeLink returns the data of the reparse point of a link to target.
func encodeLink(target string) ([]byte, error) {
	shown, err := windows.UTF16FromString(target)
	if err != nil || target == "" {
		return nil, syscall.EINVAL
	}
	form, relative, err := ntTarget(target)
	if err != nil {
		return nil, err
	}
	real, err := windows.UTF16FromString(form)
	if err != nil {
		return nil, err
	}
	shown, real = shown[:len(shown)-1], real[:len(real)-1] // both without NUL
	size := linkHead + 2*(len(real)+len(shown))
	if size > windows.MAXIMUM_REPARSE_DATA_BUFFER_SIZE {
		return nil, windows.ERROR_FILENAME_EXCED_RANGE
	}
	b := make([]byte, 0, size)
	b = binary.LittleEndian.AppendUint32(b, windows.IO_REPARSE_TAG_SYMLINK)
	flags := uint32(0)
	if relative {
		flags = linkIsRelative
	}
	for _, n := range []int{size - reparseHead, 0, 0, 2 * len(real), 2 * len(real), 2 * len(shown)} {
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
	}
	b = binary.LittleEndian.AppendUint32(b, flags)
	for _, c := range append(real, shown...) {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return b, nil
}

// decodeLink returns the target of a link whose reparse point has the data.
func decodeLink(data []byte) (string, error) {
	if len(data) < linkHead || binary.LittleEndian.Uint32(data) != windows.IO_REPARSE_TAG_SYMLINK {
		return "", syscall.EINVAL
	}
	offset, length := int(binary.LittleEndian.Uint16(data[8:])), int(binary.LittleEndian.Uint16(data[10:]))
	flags, names := binary.LittleEndian.Uint32(data[16:]), data[linkHead:]
	if offset+length > len(names) || length%2 != 0 {
		return "", syscall.EINVAL
	}
	wide := make([]uint16, length/2)
	for i := range wide {
		wide[i] = binary.LittleEndian.Uint16(names[offset+2*i:])
	}
	target := windows.UTF16ToString(wide)
	if flags&linkIsRelative != 0 {
		return target, nil
	}
	return userTarget(target), nil
}

// The root of NT's names of drives and shares.
const (
	ntRoot  = `\??\`
	ntShare = ntRoot + `UNC\`
)

// ntTarget returns the target of a link in the form of NT, and whether it is relative: to the
// directory of the link, or to the root of its drive.
func ntTarget(target string) (form string, relative bool, err error) {
	switch {
	case filepath.VolumeName(target) == "":
		return target, true, nil
	case !filepath.IsAbs(target): // "C:x" depends on the working directory
		return "", false, syscall.EINVAL
	case strings.HasPrefix(target, `\\?\`), strings.HasPrefix(target, `\\.\`):
		return ntRoot + target[4:], false, nil
	case strings.HasPrefix(target, `\\`):
		return ntShare + target[2:], false, nil
	}
	return ntRoot + target, false, nil
}

// userTarget returns the target that ntTarget has converted.
func userTarget(form string) string {
	if share, ok := strings.CutPrefix(form, ntShare); ok {
		return `\\` + share
	}
	rest, ok := strings.CutPrefix(form, ntRoot)
	switch {
	case !ok:
		return form
	case len(rest) > 1 && rest[1] == ':':
		return rest
	}
	return `\\?\` + rest // a volume by its GUID
}

// gainLinkPrivilege gives this thread the privilege to create symbolic links, if the user has it,
// until the returned function is called. Without it, only the developer mode allows links.
func gainLinkPrivilege() (end func()) {
	runtime.LockOSThread()
	if windows.ImpersonateSelf(windows.SecurityImpersonation) != nil {
		return runtime.UnlockOSThread
	}
	var token windows.Token
	err := windows.OpenThreadToken(windows.CurrentThread(), windows.TOKEN_QUERY|windows.TOKEN_ADJUST_PRIVILEGES, false, &token)
	if err == nil {
		defer token.Close()
		p := windows.Tokenprivileges{PrivilegeCount: 1}
		p.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
		if windows.LookupPrivilegeValue(nil, windows.StringToUTF16Ptr("SeCreateSymbolicLinkPrivilege"), &p.Privileges[0].Luid) == nil {
			_ = windows.AdjustTokenPrivileges(token, false, &p, 0, nil, nil)
		}
	}
	return func() {
		_ = windows.RevertToSelf()
		runtime.UnlockOSThread()
	}
}
