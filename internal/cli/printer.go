package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/progress"
)

// eraseRest erases from the cursor to the end of the line. That removes the rest of a longer
// bar, and the ^C that the terminal echoes.
const eraseRest = "\x1b[K"

// eraseBelow erases from the cursor to the end of the screen.
const eraseBelow = "\x1b[J"

// wrapOff and wrapOn disable and enable line wrapping. Without wrapping, a bar for the old width
// stays on its lines if the terminal has just become narrower.
const (
	wrapOff = "\x1b[?7l"
	wrapOn  = "\x1b[?7h"
)

// printer is the only writer to standard error while a command runs. Several goroutines print
// messages and draw the bar. To print a line, it erases the bar, writes the line, and draws the
// bar again below, all in one write.
//
// There is no place to report an error of standard error, so that it is only kept: Err returns
// it to a command whose results go there.
//
// The commands of a pipeline share a terminal. Only one of them draws a bar, and none that runs in
// the background of a shell.
type printer struct {
	claim func() bool // reports whether a bar may be drawn; nil if it always may

	mu      sync.Mutex
	w       io.Writer
	claimed bool   // true if claim has returned true
	shared  bool   // true if claim has returned false: another command may have a bar on the terminal
	bar     string // the bar on the screen, "" if there is none
	err     error  // the last write error
}

// Bar replaces the bar, which may have several lines; "" removes it.
func (p *printer) Bar(bar string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaveToShell() || bar == p.bar {
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

// draw returns the text that draws the bar. The cursor is at the beginning of a line before it,
// and at the beginning of the bar after it. The next drawing therefore begins at the right place
// even if the terminal is resized and wraps its lines differently. Each line overwrites the old
// one before its rest is erased, so that the bar does not flicker.
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

// Line prints a line above the bar. line has no newline.
func (p *printer) Line(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaveToShell()
	if p.bar == "" && !p.shared {
		p.write(line + "\n")
	} else {
		p.write("\r" + eraseBelow + line + "\n" + p.draw())
	}
}

// WithoutBar erases the bar, calls write, which prints complete lines on the same terminal, and
// draws the bar again.
func (p *printer) WithoutBar(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaveToShell()
	if p.bar == "" && !p.shared {
		write()
		return
	}
	p.write("\r" + eraseBelow)
	write()
	p.write(p.draw())
}

// leaveToShell reports whether the command runs in the background. The shell then owns the screen, so that
// no line erases anything.
func (p *printer) leaveToShell() bool {
	if !inBackground(p.w) {
		return false
	}
	p.bar, p.shared = "", false
	return true
}

func (p *printer) write(s string) {
	if _, err := io.WriteString(p.w, s); err != nil {
		p.err = err
	}
}

// Err returns the last write error.
func (p *printer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// terminal reports whether w is a terminal on which lines can be redrawn. size returns its
// present size, or 80 x 24 if that is unknown.
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

// inBackground reports whether w is the terminal of a shell that runs this command in the background.
func inBackground(w io.Writer) bool {
	f := fileOf(w)
	return f != nil && !fsys.InForeground(f)
}

// looks returns the colours and characters for progress on w.
func looks(w io.Writer) progress.Look {
	look := progress.Look{Unicode: isUTF8()}
	if coloured(w) {
		look.Bar, look.Bad, look.Off = styleBar, styleBad, styleOff
	}
	return look
}

// fileOf returns the file behind w, nil if there is none.
func fileOf(w io.Writer) *os.File {
	if c, ok := w.(*checkedWriter); ok {
		w = c.w
	}
	f, _ := w.(*os.File)
	return f
}

// isTerminal reports whether the file behind w is a terminal.
func isTerminal(w io.Writer) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}
