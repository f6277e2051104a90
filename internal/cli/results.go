package cli

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	resultsDelay = 100 * time.Millisecond // longest time that a line is buffered; too short to notice
	resultsSize  = 64 << 10               // bytes that are buffered; the default capacity of a pipe on Linux
)

// results writes the lines of a run to standard output. It combines many lines in one write,
// because there may be millions, and delays none of them noticeably.
//
// After the first write error, every Write returns that error.
type results struct {
	w      io.Writer
	screen *printer
	shared bool        // true if w is a terminal, and the bar may be on the same one
	failed func(error) // receives the first error, once; may be nil

	mu      sync.Mutex
	pending []byte
	timer   *time.Timer // timer of the next write; not nil while lines are pending
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

// Line adds one line. line has no newline.
func (r *results) Line(line string) { _, _ = io.WriteString(r, line+"\n") }

// Flush writes all complete lines. It keeps an incomplete line, so that neither the bar nor a
// message is printed after it on the same line.
func (r *results) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(r.complete())
}

// complete returns how many of the pending bytes are complete lines. Lines end in a newline or a
// NUL byte. A file name in a NUL-terminated line may contain a newline and be split there;
// that is harmless, because NUL-terminated output is not for terminals.
func (r *results) complete() int { return bytes.LastIndexAny(r.pending, "\n\x00") + 1 }

// Close writes everything that is pending. Do not call Write after it.
func (r *results) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(len(r.pending))
}

// Err returns the first write error.
func (r *results) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// write writes the first n pending bytes. r.mu is locked.
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
