package cli

import (
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// printer owns standard error while a copy runs: messages, log lines and the
// bar come from different goroutines, and all of them go through it. The bar
// is taken away before a line and drawn again below it, in one write.
//
// Errors of standard error are ignored: there is nowhere left to tell them,
// and the exit code tells what matters.
type printer struct {
	columns func() int

	mu  sync.Mutex
	w   io.Writer
	bar string // as it stands on the screen, "" if there is none
}

// Bar replaces the bar; "" removes it.
func (p *printer) Bar(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line == p.bar {
		return
	}
	var sb strings.Builder
	if line == "" {
		p.wipe(&sb)
	} else {
		// Overwriting in place does not flicker; blanks remove the rest.
		sb.WriteString("\r" + line + blanks(len(p.bar)-len(line), p.columns()-1-len(line)))
	}
	p.bar = line
	p.write(sb.String())
}

// Line prints a line that stays.
func (p *printer) Line(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sb strings.Builder
	if p.bar == "" {
		sb.WriteString(line + "\n")
	} else {
		p.wipe(&sb)
		sb.WriteString(line + "\n" + p.bar)
	}
	p.write(sb.String())
}

func (p *printer) wipe(sb *strings.Builder) {
	sb.WriteString("\r" + blanks(len(p.bar), p.columns()-1) + "\r")
}

// blanks never reaches into the last column of a terminal that has become
// narrower since the bar was drawn.
func blanks(n, space int) string { return strings.Repeat(" ", max(0, min(n, space))) }

func (p *printer) write(s string) { _, _ = io.WriteString(p.w, s) }

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// terminalWidth returns the columns of a terminal, 0 if it does not say.
func terminalWidth(f *os.File) int {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}
