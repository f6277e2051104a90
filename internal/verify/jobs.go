package verify

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// number numbers the lines of all manifests in their order.
func (r *run) number() {
	next := int64(0)
	for _, t := range r.trees {
		for _, s := range t.manifests {
			s.first = next
			next += s.lines
		}
	}
}

var errManifestChanged = errors.New("the manifest has changed while it was used")

// readLines makes jobs of all numbered lines in a tree. Several manifests of a tree often
// list the same files in the same order: such lines share a job.
func (r *run) readLines(ctx context.Context, t *tree, send func(*job)) {
	for i, s := range t.manifests {
		index, err := s.readLines(ctx, manifestsAhead(t.manifests[i+1:]), r.order.IsFull, send)
		if err == nil && index < s.lines {
			err = errManifestChanged
		}
		s.err = err
		if index < s.lines { // the order needs the other numbers, too
			send(&job{parts: []*part{s.part(index, expectation{})}, rest: true})
		}
	}
}

// skipRest skips the lines of a manifest from index on that no job has.
func (r *run) skipRest(s *treeManifest, index int64) {
	for ; index < s.lines; index++ {
		if !s.ahead.took(index) {
			r.order.Skip(s.first + index)
		}
	}
}

// maxAhead limits how many manifests are read ahead of the current one. It allows one for
// each digest of a tree, but not the thousands of manifests in a directory that has one for
// every file.
var maxAhead = len(hash.All()) - 1

func manifestsAhead(later []*treeManifest) []*treeManifest { return later[:min(len(later), maxAhead)] }

// maxShared limits how many lines share a job. They wait in memory for it.
const maxShared = 1000

// readLines makes jobs of the lines of one manifest. A job also gets the next lines for the
// same file, and those in later manifests unless isFull returns true. isFull may be nil. readLines
// returns how many lines it has reached.
func (s *treeManifest) readLines(ctx context.Context, later []*treeManifest, isFull func() bool, send func(*job)) (index int64, err error) {
	var j *job
	defer func() {
		s.ahead.in = nil // its buffer is not needed any more
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
		l.path, l.literal = j.path, j.literal // one copy in memory of equal ones
		j.parts = append(j.parts, s.part(index, l))
		for _, other := range later {
			if isFull != nil && isFull() {
				break
			}
			if p := other.take(l); p != nil {
				j.parts = append(j.parts, p)
			}
		}
	}
	return index, ctx.Err()
}

func (s *treeManifest) part(index int64, x expectation) *part {
	return &part{number: s.first + index, from: s, expectation: x}
}

// lookahead is the state of a manifest that is read ahead of the current one: the next
// line, and which lines have joined a job.
type lookahead struct {
	in    *lines
	line  expectation // the next line
	index int64       // index of the next line
	ended bool
	taken []uint64 // a bit for each line that a job has, by index
}

func (a *lookahead) took(index int64) bool {
	return a.taken != nil && a.taken[index/64]&(1<<(index%64)) != 0
}

// take returns the next line of the manifest if it lists the same file as l. It skips lines
// that sort before l's path, because most manifests are sorted. Skipped lines get their own
// jobs later.
func (s *treeManifest) take(l expectation) *part {
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
	a.line.path, a.line.literal = l.path, l.literal
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
		// The error occurs again when this manifest is the current one.
	}
	a.ended, a.in = true, nil // its buffer is not needed any more
}

// sizeOf returns the memory of a part that waits for its report, in bytes.
func sizeOf(p *part) int { return 320 + len(p.path) + len(p.literal) }
