package fsys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// keepsDoubles reports whether the file system of the descriptor has no extended attributes, so
// that the kernel has AppleDouble files there: VOL_CAP_INT_EXTENDED_ATTR of getattrlist(2).
func keepsDoubles(fd int) bool {
	const interfaces, extendedAttributes = 1, 0x4000 // sys/attr.h
	list := unix.Attrlist{Bitmapcount: unix.ATTR_BIT_MAP_COUNT, Volattr: unix.ATTR_VOL_INFO | unix.ATTR_VOL_CAPABILITIES}
	var got struct {
		length              uint32
		capabilities, valid [4]uint32
	}
	_, _, e := unix.Syscall6(unix.SYS_FGETATTRLIST, uintptr(fd), uintptr(unsafe.Pointer(&list)),
		uintptr(unsafe.Pointer(&got)), unsafe.Sizeof(got), 0, 0)
	return e == 0 && got.capabilities[interfaces]&got.valid[interfaces]&extendedAttributes == 0
}
