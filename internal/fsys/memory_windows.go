package fsys

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// Memory returns how many bytes of memory the machine has; 0 if it is unknown
// (GlobalMemoryStatusEx).
func Memory() int64 {
	var status struct {
		length, load                                             uint32
		total, available, totalPage, availablePage               uint64
		totalVirtual, availableVirtual, availableExtendedVirtual uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	if globalMemoryStatusEx.Find() != nil {
		return 0
	}
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0
	}
	return int64(status.total)
}
