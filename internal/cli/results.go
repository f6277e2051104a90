package cli

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	resultsDelay = 100 * time.Millisecond // for how long a line may wait; less than people notice
	resultsSize  = 64 << 10               // bytes that may wait; what a pipe takes at once
)

// results carries the lines of a run to standard output: many in one write,
// because there may be a million, and none of them late, because somebody may be
// waiting for it. A nil *results takes no lines.
//
// The first error of standard output is the answer to every later line.
type results struct {
	w      io.Writer
	screen *printer
	aside  bool        // w is a terminal, perhaps the one with the bar
	failed func(error) // called once, with the first error; may be nil

	mu      sync.Mutex
	pending []byte
	timer   *time.Timer // runs while something is pending
	err     error
}

func newResults(w io.Writer, screen *printer) *results {
	f := fileOf(w)
	return &results{w: w, screen: screen, aside: f != nil && isTerminal(f)}
}

// Write takes lines, or parts of them.
func (r *results) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.pending = append(r.pending, p...)
		if len(r.pending) >= resultsSize {
			r.put(r.whole())
		} else if r.timer == nil {
			r.timer = time.AfterFunc(resultsDelay, r.Flush)
		}
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

// Line takes one line without its end.
func (r *results) Line(line string) { _, _ = io.WriteString(r, line+"\n") }

// Flush writes what is pending. Half a line waits for its end: neither the bar
// nor a message may stand beside it.
func (r *results) Flush() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(r.whole())
}

// whole returns how much of what is pending is whole lines. They may also end in
// NUL bytes, which no text holds, and then hold line feeds, which harms nobody: such
// lines are not for a terminal.
func (r *results) whole() int { return bytes.LastIndexAny(r.pending, "\n\x00") + 1 }

// Close writes all that is left. Nothing may be written afterwards.
func (r *results) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(len(r.pending))
}

// Err returns the first error of standard output.
func (r *results) Err() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// put writes the first n bytes of what is pending.
func (r *results) put(n int) {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if n == 0 || r.err != nil {
		return
	}
	write := func() { _, r.err = r.w.Write(r.pending[:n]) }
	if r.aside {
		r.screen.Aside(write)
	} else {
		write()
	}
	if r.err != nil && r.failed != nil {
		r.failed(r.err)
	}
	r.pending = append(r.pending[:0], r.pending[n:]...)
}
