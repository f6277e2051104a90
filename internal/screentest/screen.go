// Package screentest is a terminal for tests: it shows what a program has drawn.
package screentest

import (
	"bytes"
	"strings"
	"sync"

	"github.com/charmbracelet/x/vt"
)

// Screen is the screen of a terminal. A line feed begins a new line, as the system does it
// for terminals. It is safe for several goroutines.
type Screen struct {
	mu struct {
		sync.Mutex
		emulator *vt.Emulator
		raw      bytes.Buffer
		writes   int
	}
}

// New returns a screen of that size.
func New(columns, rows int) *Screen {
	s := &Screen{}
	s.mu.emulator = vt.NewEmulator(columns, rows)
	return s
}

func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.raw.Write(p)
	s.mu.writes++
	if _, err := s.mu.emulator.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Resize gives the screen another size. Text that does not fit is cut off.
func (s *Screen) Resize(columns, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.emulator.Resize(columns, rows)
}

// Size returns the size of the screen.
func (s *Screen) Size() (columns, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.emulator.Width(), s.mu.emulator.Height()
}

// Lines returns what the screen shows, without spaces at the ends of lines and without
// empty lines at the end.
func (s *Screen) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimRight(s.mu.emulator.String(), " \n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	return lines
}

// Cursor returns the row and the column of the cursor, counted from 0.
func (s *Screen) Cursor() (row, column int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.mu.emulator.CursorPosition()
	return at.Y, at.X
}

// Raw returns everything that was written.
func (s *Screen) Raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.raw.String()
}

// Writes returns how many times something was written.
func (s *Screen) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.writes
}
