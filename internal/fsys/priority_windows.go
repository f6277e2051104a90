package fsys

import "golang.org/x/sys/windows"

// LowerPriority begins background mode, in which input and output have a low priority:
// SetPriorityClass.
func LowerPriority() error {
	return windows.SetPriorityClass(windows.CurrentProcess(), windows.PROCESS_MODE_BACKGROUND_BEGIN)
}
