package fsys

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// With lockDir set, the test binary is the other process: it locks, says so,
// and waits for the end of its input or to be killed.
const lockDir = "FSYS_TEST_LOCK_DIR"

func TestMain(m *testing.M) {
	path := os.Getenv(lockDir)
	if path == "" {
		os.Exit(m.Run())
	}
	d, err := OpenRoot(path)
	if err == nil {
		_, err = d.Lock("lock")
	}
	fmt.Println("lock:", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestLockExcludesASecondHolder(t *testing.T) {
	d, path := tempRoot(t)
	put(t, filepath.Join(path, "lock"), "data")
	l, err := d.Lock("lock")
	need(t, "locks", err)
	_, err = d.Lock("lock")
	require.ErrorIs(t, err, ErrLocked)
	other, err := d.Lock("other")
	require.NoError(t, err)
	other.Unlock()
	require.Equal(t, "lock: "+ErrLocked.Error(), lockElsewhere(t, path, func(*exec.Cmd) {}))

	f, _, err := d.Open("lock")
	require.NoError(t, err)
	n, err := f.ReadAt(make([]byte, 8), 0)
	require.NoError(t, err, "the lock prevents no reads")
	require.Equal(t, 4, n)
	f.Close()
	require.NoError(t, d.Remove("lock"))
	l.Unlock()
	l, err = d.Lock("lock")
	require.NoError(t, err)
	l.Unlock()
}

// If the file cannot be read any more, it was not removed: Lock reports that instead of
// trying for ever.
func TestLockOfAnUnreadableFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fault hook is not asked here")
	}
	d, _ := ownRoot(t)
	failAll(&d.Object, syscall.EIO, OpStat)
	_, err := d.Lock("lock")
	require.ErrorIs(t, err, syscall.EIO)
}

func TestLockEndsWithItsProcess(t *testing.T) {
	d, path := tempRoot(t)
	said := lockElsewhere(t, path, func(other *exec.Cmd) {
		_, err := d.Lock("lock")
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, other.Process.Kill())
		_ = other.Wait()
		// Windows releases a dead process's locks "as soon as the system can".
		require.Eventually(t, func() bool {
			l, err := d.Lock("lock")
			if err == nil {
				l.Unlock()
			}
			return err == nil
		}, 10*time.Second, 10*time.Millisecond)
	})
	require.Equal(t, "lock: <nil>", said)
}

// lockElsewhere locks in another process, calls then while it runs, and returns
// what it said.
func lockElsewhere(t *testing.T, path string, then func(*exec.Cmd)) string {
	t.Helper()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), lockDir+"="+path)
	stdin, err := other.StdinPipe()
	require.NoError(t, err)
	stdout, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	defer func() { stdin.Close(); _ = other.Wait() }()
	line, _, err := bufio.NewReader(stdout).ReadLine()
	require.NoError(t, err)
	then(other)
	return string(line)
}
