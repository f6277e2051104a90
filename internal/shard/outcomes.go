package shard

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Outcome is a failure, a mismatch, a conflict or a warning of an attempt.
type Outcome struct {
	Kind   OutcomeKind `json:"kind"`
	Path   Text        `json:"path"`   // relative to the root; "" for none
	Target int         `json:"target"` // index in Plan.Targets; -1 for the source, or for all
	Stage  string      `json:"stage"`
	Cause  Text        `json:"cause"`
	Hint   string      `json:"hint"`
}

// OutcomeKind says what an Outcome is.
type OutcomeKind string

// The kinds of outcomes.
const (
	OutcomeFailed   OutcomeKind = "failed"
	OutcomeMismatch OutcomeKind = "mismatch"
	OutcomeConflict OutcomeKind = "conflict"
	OutcomeWarning  OutcomeKind = "warning"
	OutcomeLost     OutcomeKind = "lost" // the destination was dropped
)

const outcomesName = "outcomes"

// maxCause is how much of a cause is recorded, in bytes.
const maxCause = 64 << 10

// OutcomeWriter writes the outcomes of an attempt: one JSON object in each line, the counts
// first. Only one goroutine may use it.
type OutcomeWriter struct {
	attempt *Attempt
	file    *fsys.Spill // the outcomes, until the counts are known
	size    int64       // that was written to out, in bytes
	out     *bufio.Writer
}

// NewOutcomes begins the outcomes of the attempt. The caller must call Close.
func (a *Attempt) NewOutcomes() (*OutcomeWriter, error) {
	file, err := a.Dir.Create(false)
	if err != nil {
		return nil, err
	}
	w := &OutcomeWriter{attempt: a, file: &fsys.Spill{Pending: file}}
	w.out = bufio.NewWriterSize(w.file, fileBuffer)
	return w, nil
}

// Put adds an outcome. If its path cannot be one of a tree, Put moves the path into the cause.
func (w *OutcomeWriter) Put(o Outcome) error {
	if o.Path != "" && !IsPath(string(o.Path)) {
		o.Path, o.Cause = "", o.Path+": "+o.Cause
	}
	if len(o.Cause) > maxCause {
		o.Cause = o.Cause[:maxCause]
	}
	text, err := json.Marshal(o)
	if err == nil {
		var n int
		n, err = w.out.Write(append(text, '\n'))
		w.size += int64(n)
	}
	return err
}

// Finish writes the part, as LineWriter.Finish does. counts is the first object.
func (w *OutcomeWriter) Finish(counts any) (Part, error) {
	text, err := json.Marshal(counts)
	if err == nil {
		err = w.out.Flush()
	}
	if err != nil {
		return Part{}, err
	}
	a := w.attempt
	return a.writePart(outcomesName, partHead(outcomesName, a.store.Plan.ID, a.index, a.Number), func(f *planFile) error {
		if _, err := f.Write(append(text, '\n')); err != nil {
			return err
		}
		_, err := io.CopyBuffer(f, io.NewSectionReader(w.file, 0, w.size), make([]byte, fileBuffer))
		return err
	})
}

// Close removes the temporary file.
func (w *OutcomeWriter) Close() { w.file.Abort() }

// OutcomeReader reads the outcomes of a finished shard.
type OutcomeReader struct {
	lines   *lines
	targets int
}

// OpenOutcomes opens the outcomes of a finished shard, and reads the counts into the value that
// counts points to. The caller must Close the reader.
func (s *Store) OpenOutcomes(f *Finished, counts any) (*OutcomeReader, error) {
	l, err := s.openJSON(f, outcomesName, counts)
	if err != nil {
		return nil, err
	}
	return &OutcomeReader{lines: l, targets: len(s.Plan.Targets)}, nil
}

// Close closes the file.
func (r *OutcomeReader) Close() { r.lines.file.Close() }

// Next returns the next outcome, or io.EOF.
func (r *OutcomeReader) Next() (*Outcome, error) {
	text, err := r.lines.entry(0)
	if err != nil {
		return nil, err
	}
	o := &Outcome{}
	if err := r.lines.parseJSON(text, o); err != nil {
		return nil, err
	}
	switch o.Kind {
	case OutcomeFailed, OutcomeMismatch, OutcomeConflict, OutcomeWarning, OutcomeLost:
	default:
		return nil, r.lines.failed(errWord)
	}
	switch {
	case o.Path != "" && !IsPath(string(o.Path)):
		return nil, r.lines.failed(errPath)
	case o.Target < -1 || o.Target >= r.targets:
		return nil, r.lines.failed(errNumber)
	}
	return o, nil
}
