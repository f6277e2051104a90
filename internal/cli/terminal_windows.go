package cli

import (
	"os"
	"syscall"
)

var setConsoleMode = syscall.NewLazyDLL("kernel32.dll").NewProc("SetConsoleMode")

// canErase makes a console understand escape sequences, which those before
// Windows 10 cannot.
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
