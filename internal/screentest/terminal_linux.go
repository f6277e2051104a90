package screentest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a terminal of the system with its screen.
type Terminal struct {
	*Screen

	Program *os.File // the end that a program writes to
	user    *os.File
	ended   chan struct{}
}

// OpenTerminal makes a terminal of that size, which is closed when the test ends. The test
// is skipped where the system has none.
func OpenTerminal(t testing.TB, columns, rows int) *Terminal {
	t.Helper()
	user, program := OpenPair(t, columns, rows)
	term := &Terminal{Screen: New(columns, rows), Program: program, user: user, ended: make(chan struct{})}
	go func() {
		defer close(term.ended)
		_, _ = io.Copy(term.Screen, user) // EIO when the other end is closed
	}()
	t.Cleanup(func() {
		_ = program.Close()
		<-term.ended
		_ = user.Close()
	})
	return term
}

// Resize gives the terminal another size.
func (t *Terminal) Resize(columns, rows int) error {
	t.Screen.Resize(columns, rows)
	return resize(t.user, columns, rows)
}

// OpenPair makes a terminal and returns both of its ends. The test is skipped where the
// system has none.
func OpenPair(t testing.TB, columns, rows int) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = resize(user, columns, rows)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = user.Close()
		t.Skip("no terminals here: ", err)
	}
	return user, program
}

func resize(user *os.File, columns, rows int) error {
	return unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)})
}

// Type sends what a user types.
func (t *Terminal) Type(text string) error {
	_, err := t.user.WriteString(text)
	return err
}

// Flush waits until the screen shows everything that was written to the terminal.
func (t *Terminal) Flush(tb testing.TB) {
	tb.Helper()
	const mark = "\x1b]2;flushed\a" // a title, which is not on the screen
	n := strings.Count(t.Raw(), mark)
	if _, err := t.Program.WriteString(mark); err != nil {
		tb.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); strings.Count(t.Raw(), mark) == n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("the terminal shows nothing any more")
		}
	}
}
