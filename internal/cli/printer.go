package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// eraseRest makes a terminal erase from the cursor to the end of the line: what
// is left of a longer bar, and the ^C that the terminal itself has put there.
const eraseRest = "\x1b[K"

// eraseBelow erases from the cursor to the end of the screen.
const eraseBelow = "\x1b[J"

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
	text := p.top() + strings.ReplaceAll(bar, "\n", eraseRest+"\n") + eraseRest // in this order nothing flickers
	if strings.Count(bar, "\n") < strings.Count(p.bar, "\n") {
		text += eraseBelow
	}
	p.bar = bar
	p.write(text)
}

// Line prints a line that stays.
func (p *printer) Line(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == "" && !p.shared {
		p.write(line + "\n")
	} else {
		p.write(p.remove() + line + "\n" + p.bar)
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
	p.write(p.remove())
	write()
	p.write(p.bar)
}

// top moves the cursor to the beginning of the bar.
func (p *printer) top() string {
	if lines := strings.Count(p.bar, "\n"); lines > 0 {
		return fmt.Sprintf("\r\x1b[%dA", lines)
	}
	return "\r"
}

// remove erases the bar.
func (p *printer) remove() string {
	if strings.Contains(p.bar, "\n") {
		return p.top() + eraseBelow
	}
	return "\r" + eraseRest
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

// terminal reports whether w is a terminal on which a line can be redrawn, and how wide
// it is at any moment.
func terminal(w io.Writer) (columns func() int, ok bool) {
	const usual = 80
	if !isTerminal(w) {
		return func() int { return usual }, false
	}
	f := fileOf(w)
	columns = func() int {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
		return usual
	}
	return columns, os.Getenv("TERM") != "dumb" && canErase(f)
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
