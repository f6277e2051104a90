package cli

import (
	"os"
	"syscall"
)

var setConsoleMode = syscall.NewLazyDLL("kernel32.dll").NewProc("SetConsoleMode")

// canErase enables escape sequences on a console and reports whether that worked. Consoles before
// Windows 10 have none.
func canErase(f *os.File) bool {
	const enableVirtualTerminalProcessing = 0x4
	console := syscall.Handle(f.Fd())
	var mode uint32
	if err := syscall.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	ok, _, _ := setConsoleMode.Call(uintptr(console), uintptr(mode|enableVirtualTerminalProcessing))
	return ok != 0
}
