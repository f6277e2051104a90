package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/seed65876f4f/sealift/internal/progress"
)

// eraseRest makes a terminal erase from the cursor to the end of the line: what
// is left of a longer bar, and the ^C that the terminal itself has put there.
const eraseRest = "\x1b[K"

// eraseBelow erases from the cursor to the end of the screen.
const eraseBelow = "\x1b[J"

// While wrapOff is in effect, a line that is too long for the terminal does not continue
// below: the terminal may have become narrower an instant ago.
const (
	wrapOff = "\x1b[?7l"
	wrapOn  = "\x1b[?7h"
)

// printer owns standard error while a command runs: messages and the bar come from
// different goroutines, and all of them go through it. It removes the bar before a line
// and draws it again below, in one write.
//
// Errors of standard error cannot be reported: there is no other place, and the exit
// code says what matters. Err returns them to a command whose results go there.
//
// Several commands may share a terminal, as in a pipeline. Only one of them draws a bar.
type printer struct {
	claim func() bool // reports whether a bar may be drawn; nil if it always may

	mu      sync.Mutex
	w       io.Writer
	claimed bool   // claim has returned true
	shared  bool   // claim has returned false: another command may have its bar on the screen
	bar     string // on the screen, "" if there is none
	err     error  // the last one
}

// Bar replaces the bar, which may have several lines; "" removes it.
func (p *printer) Bar(bar string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bar == p.bar {
		return
	}
	if p.claim != nil && !p.claimed {
		p.claimed = p.claim()
		p.shared = !p.claimed
		if p.shared {
			return
		}
	}
	p.bar = bar
	p.write("\r" + p.draw())
}

// draw draws the bar from the cursor on, where a line begins, and leaves the cursor there:
// at the beginning of the bar. A terminal that becomes narrower or wider may break its lines
// anew, and the next drawing begins at the right place all the same. Nothing flickers,
// because each line replaces the old one before its rest is erased.
func (p *printer) draw() string {
	if p.bar == "" {
		return eraseBelow
	}
	lines := strings.Split(p.bar, "\n")
	text := wrapOff + strings.Join(lines, eraseRest+"\n") + eraseBelow + wrapOn + "\r"
	if up := len(lines) - 1; up > 0 {
		text += fmt.Sprintf("\x1b[%dA", up)
	}
	return text
}

// Line prints a line that stays.
func (p *printer) Line(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == "" && !p.shared {
		p.write(line + "\n")
	} else {
		p.write("\r" + eraseBelow + line + "\n" + p.draw())
	}
}

// WithoutBar removes the bar while write puts lines on the same terminal in another way.
func (p *printer) WithoutBar(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == "" && !p.shared {
		write()
		return
	}
	p.write("\r" + eraseBelow)
	write()
	p.write(p.draw())
}

func (p *printer) write(s string) {
	if _, err := io.WriteString(p.w, s); err != nil {
		p.err = err
	}
}

// Err returns an error that standard error has had.
func (p *printer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// terminal reports whether w is a terminal on which lines can be redrawn, and how large
// it is at any moment.
func terminal(w io.Writer) (size func() (columns, rows int), ok bool) {
	const usualColumns, usualRows = 80, 24
	if !isTerminal(w) {
		return func() (int, int) { return usualColumns, usualRows }, false
	}
	f := fileOf(w)
	size = func() (int, int) {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
		return usualColumns, usualRows
	}
	return size, os.Getenv("TERM") != "dumb" && canErase(f)
}

// looks returns how progress is drawn on w.
func looks(w io.Writer) progress.Look {
	look := progress.Look{Unicode: speaksUTF8()}
	if coloured(w) {
		look.Bar, look.Bad, look.Off = styleBar, styleBad, styleOff
	}
	return look
}

// fileOf returns the file that w writes to in the end, nil if there is none.
func fileOf(w io.Writer) *os.File {
	if c, ok := w.(*checkedWriter); ok {
		w = c.w
	}
	f, _ := w.(*os.File)
	return f
}

// isTerminal reports whether w writes to a terminal in the end.
func isTerminal(w io.Writer) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}
