package cli

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const (
	listingMemory = 16 << 20 // bytes of lines that a listing keeps in memory, some 80,000 lines
	lineOverhead  = 64       // bytes of memory that a line uses besides its two strings
)

// listing collects the lines of --verbose in any order and returns them sorted. Its memory does
// not depend on their number, because it writes sorted runs of lines to a temporary file. Use it
// from one goroutine.
type listing struct {
	memory int // bytes of lines in memory after which a run is written to the file

	lines []listedLine
	bytes int
	file  *os.File // nil until the first run is written
	named bool     // the file still has a name, which close removes
	size  int64    // of the file
	runs  []*bufio.Reader
	err   error // of the file; the first one
}

// listedLine is a line and its sort key.
type listedLine struct{ key, text string }

func byKey(a, b listedLine) int { return strings.Compare(a.key, b.key) }

// add adds a line.
func (l *listing) add(key, text string) {
	if l.err != nil {
		return
	}
	l.lines = append(l.lines, listedLine{key, text})
	if l.bytes += len(key) + len(text) + lineOverhead; l.bytes > l.memory {
		l.err = l.spill()
	}
}

// spill writes the lines in memory to the file as one sorted run.
func (l *listing) spill() error {
	if l.file == nil {
		f, err := os.CreateTemp("", "sealift-listing-")
		if err != nil {
			return err
		}
		l.file = f
		l.named = os.Remove(f.Name()) != nil // Windows cannot remove an open file
	}
	slices.SortStableFunc(l.lines, byKey)
	begin := l.size
	w := bufio.NewWriter(io.NewOffsetWriter(l.file, begin))
	for _, line := range l.lines {
		for _, s := range []string{line.key, line.text} {
			length := binary.AppendUvarint(nil, uint64(len(s)))
			_, _ = w.Write(length) // Flush returns the error
			_, _ = w.WriteString(s)
			l.size += int64(len(length) + len(s))
		}
	}
	l.runs = append(l.runs, bufio.NewReader(io.NewSectionReader(l.file, begin, l.size-begin)))
	l.lines, l.bytes = l.lines[:0], 0
	return w.Flush()
}

// close calls yield for each line in the order of the keys, and removes the file.
func (l *listing) close(yield func(line string)) error {
	if l.err == nil {
		l.err = l.merge(yield)
	}
	if l.file != nil {
		l.err = errors.Join(l.err, l.file.Close())
		if l.named {
			l.err = errors.Join(l.err, os.Remove(l.file.Name()))
		}
	}
	if l.err != nil {
		return fmt.Errorf("the listing is incomplete: %w", fileError(l.err))
	}
	return nil
}

func (l *listing) merge(yield func(line string)) error {
	slices.SortStableFunc(l.lines, byKey)
	var heads lineHeap
	for _, r := range l.runs {
		run := &lineRun{in: r}
		if err := run.next(); err != nil {
			return err
		}
		heads = append(heads, run)
	}
	heap.Init(&heads)
	rest := l.lines
	for len(heads) > 0 {
		for len(rest) > 0 && byKey(rest[0], heads[0].line) < 0 {
			yield(rest[0].text)
			rest = rest[1:]
		}
		yield(heads[0].line.text)
		switch err := heads[0].next(); {
		case errors.Is(err, io.EOF):
			heap.Pop(&heads)
		case err != nil:
			return err
		default:
			heap.Fix(&heads, 0)
		}
	}
	for _, line := range rest {
		yield(line.text)
	}
	return nil
}

// lineRun reads one sorted run from the file.
type lineRun struct {
	in   *bufio.Reader
	line listedLine
}

// next reads the next line. It returns io.EOF after the last one.
func (r *lineRun) next() (err error) {
	if r.line.key, err = r.text(); err != nil {
		return err
	}
	r.line.text, err = r.text()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (r *lineRun) text() (string, error) {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return "", err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r.in, b)
	return string(b), err
}

// lineHeap is a heap of runs, ordered by their current lines.
type lineHeap []*lineRun

func (h lineHeap) Len() int           { return len(h) }
func (h lineHeap) Less(i, j int) bool { return byKey(h[i].line, h[j].line) < 0 }
func (h lineHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *lineHeap) Push(x any)        { *h = append(*h, x.(*lineRun)) }
func (h *lineHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
