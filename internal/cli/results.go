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

// results writes the lines of a run to standard output: many in one write, because
// there may be a million, and none of them late, because a user may be waiting for it.
//
// Every line after the first error of standard output gets the same error.
type results struct {
	w      io.Writer
	screen *printer
	shared bool        // w is a terminal, perhaps the one with the bar
	failed func(error) // called once, with the first error; may be nil

	mu      sync.Mutex
	pending []byte
	timer   *time.Timer // runs while something is pending
	err     error
}

func newResults(w io.Writer, screen *printer) *results {
	return &results{w: w, screen: screen, shared: isTerminal(w)}
}

// Write adds lines, or parts of them.
func (r *results) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.pending = append(r.pending, p...)
		if len(r.pending) >= resultsSize {
			r.write(r.complete())
		} else if r.timer == nil {
			r.timer = time.AfterFunc(resultsDelay, r.Flush)
		}
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

// Line adds one line, given without its end.
func (r *results) Line(line string) { _, _ = io.WriteString(r, line+"\n") }

// Flush writes the pending lines. Half a line waits for its end, so that neither the bar
// nor a message is printed behind it.
func (r *results) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(r.complete())
}

// complete returns how many pending bytes are complete lines. Lines may also end in NUL
// bytes. A line feed in such a line may split it, which is harmless: it is not for a
// terminal.
func (r *results) complete() int { return bytes.LastIndexAny(r.pending, "\n\x00") + 1 }

// Close writes all that is left. Nothing may be written afterwards.
func (r *results) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(len(r.pending))
}

// Err returns the first error of standard output.
func (r *results) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// write writes the first n pending bytes.
func (r *results) write(n int) {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if n == 0 || r.err != nil {
		return
	}
	write := func() { _, r.err = r.w.Write(r.pending[:n]) }
	if r.shared {
		r.screen.WithoutBar(write)
	} else {
		write()
	}
	if r.err != nil && r.failed != nil {
		r.failed(r.err)
	}
	r.pending = append(r.pending[:0], r.pending[n:]...)
}
