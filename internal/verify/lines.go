package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// number gives everything that may be told a number, in the order in which it
// will be told, and returns how many there are: for each tree what was noted
// about it, then for each manifest its lines and what may go wrong with it.
func (r *run) number() (numbers int64) {
	for _, t := range r.trees {
		t.first = numbers
		numbers += int64(len(t.notes))
		for _, s := range t.manifests {
			s.first = numbers
			numbers += s.lines + 1
		}
	}
	return numbers
}

var errManifestChanged = errors.New("the manifest has changed while it was used")

// readLines makes jobs of everything in a tree that has a number. Several manifests of
// a tree often list the same files in the same order: such lines share a job.
func (r *run) readLines(ctx context.Context, t *tree, send func(*job)) {
	for i, n := range t.notes {
		send(&job{parts: []*part{{number: t.first + int64(i), from: &source{tree: t}, expectation: expectation{path: n.path}, verdict: n.verdict, err: n.err}}})
	}
	for i, s := range t.manifests {
		index, err := s.readLines(ctx, sideBySide(t.manifests[i+1:]), send)
		if err == nil && index < s.lines {
			err = errManifestChanged
		}
		for ; index < s.lines; index++ {
			if !s.ahead.took(index) {
				send(&job{parts: []*part{{number: s.first + index, from: s, silent: true}}})
			}
		}
		end := &part{number: s.first + s.lines, from: s, expectation: expectation{path: filepath.Base(s.shown)}, verdict: Failure, err: err}
		end.silent = err == nil || ctx.Err() != nil
		send(&job{parts: []*part{end}})
	}
}

// maxAhead is how many manifests are read beside the one whose turn it is: as
// many as there are digests of one tree, and not the thousands of a directory
// with one for every file.
var maxAhead = len(hash.All()) - 1

func sideBySide(later []*source) []*source { return later[:min(len(later), maxAhead)] }

// maxShared is how many lines share a job at most: they wait in memory for it.
const maxShared = 1000

// readLines makes jobs of the lines of one manifest, with the ones after them
// and those of the later manifests that list the same file, and returns how many
// lines it has come to.
func (s *source) readLines(ctx context.Context, later []*source, send func(*job)) (index int64, err error) {
	var j *job
	defer func() {
		s.ahead.in = nil // and its buffer
		if j != nil {
			send(j)
		}
	}()
	in := s.read()
	for ; ctx.Err() == nil; index++ {
		l, err := in.next()
		switch {
		case errors.Is(err, io.EOF):
			return index, nil
		case err != nil:
			return index, fmt.Errorf("the manifest cannot be read: %w", err)
		case index == s.lines:
			return index, errManifestChanged
		case s.ahead.took(index):
			continue
		}
		if j != nil && (j.path != l.path || j.literal != l.literal || len(j.parts) >= maxShared) {
			send(j)
			j = nil
		}
		if j == nil {
			j = &job{path: l.path, literal: l.literal}
		}
		j.parts = append(j.parts, s.part(index, l))
		for _, other := range later {
			if p := other.take(l); p != nil {
				j.parts = append(j.parts, p)
			}
		}
	}
	return index, ctx.Err()
}

func (s *source) part(index int64, x expectation) *part {
	return &part{number: s.first + index, from: s, expectation: x}
}

// lookahead is how far a manifest was read while it is the turn of an earlier
// one, and which of its lines were taken then.
type lookahead struct {
	in    *lines
	line  expectation // the next one to be taken
	index int64       // its place
	ended bool
	taken []uint64 // by place
}

func (a *lookahead) took(index int64) bool {
	return a.taken != nil && a.taken[index/64]&(1<<(index%64)) != 0
}

// take returns the next line of the manifest if it lists the same file as l. It
// passes over lines that come before that in the order of bytes, in which most
// manifests are; what is passed over or never met is left for its turn.
func (s *source) take(l expectation) *part {
	a := &s.ahead
	if a.taken == nil {
		a.in, a.index, a.taken = s.read(), -1, make([]uint64, s.lines/64+1)
		a.advance(s.lines)
	}
	for !a.ended && a.line.path < l.path {
		a.advance(s.lines)
	}
	if a.ended || a.line.path != l.path || a.line.literal != l.literal {
		return nil
	}
	a.taken[a.index/64] |= 1 << (a.index % 64)
	p := s.part(a.index, a.line)
	a.advance(s.lines)
	return p
}

func (a *lookahead) advance(lines int64) {
	if a.index++; a.index < lines {
		var err error
		if a.line, err = a.in.next(); err == nil {
			return
		}
		// The error is met again when it is the manifest's turn.
	}
	a.ended, a.in = true, nil // and its buffer
}
