package fsys

import (
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// All threads have the priority, also those that begin later. A thread in the idle class keeps it.
func TestLowerPriority(t *testing.T) {
	require.NoError(t, LowerPriority())
	threads, err := filepath.Glob("/proc/self/task/*")
	require.NoError(t, err)
	for _, name := range threads {
		id, err := strconv.Atoi(filepath.Base(name))
		require.NoError(t, err)
		priority, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(id), 0)
		if errno == unix.ESRCH {
			continue
		}
		require.Zero(t, errno)
		require.Equal(t, uintptr(2<<13|7), priority, name)
	}
	require.NotEmpty(t, threads)

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const self, lowest, idle = 0, 2<<13 | 7, 3 << 13
	_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, 1, self, idle)
	require.Zero(t, errno)
	require.NoError(t, LowerPriority())
	priority, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, self, 0)
	require.Zero(t, errno)
	require.Equal(t, uintptr(idle), priority&^7)
	_, _, errno = unix.Syscall(unix.SYS_IOPRIO_SET, 1, self, lowest)
	require.Zero(t, errno)
}
