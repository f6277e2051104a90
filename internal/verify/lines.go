package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// This file reads a manifest line by line. readLines (jobs.go) makes jobs of the lines.

// lines reads a manifest.
type lines struct {
	*manifest.Reader
	from    *treeManifest
	foreign []int // numbers of entries with an unknown algorithm, or a digest of a wrong length; at most maxNumbers
	count   int64 // number of entries that foreign describes
	leftOut int64 // lines that the filters leave out
}

// maxNumbers is how many line numbers a complaint gives.
const maxNumbers = 8

func (s *treeManifest) read() *lines {
	return &lines{Reader: manifest.NewReader(io.NewSectionReader(s.in, 0, s.size), s.format, s.algorithm), from: s}
}

// next returns the next entry that can be checked. The error at the end is io.EOF.
func (l *lines) next() (expectation, error) {
	for {
		entry, err := l.Next()
		if err != nil {
			return expectation{}, err
		}
		x, ok := l.from.expectationOf(entry)
		switch {
		case !ok:
			if l.count++; len(l.foreign) < maxNumbers {
				l.foreign = append(l.foreign, l.Number())
			}
		case !l.from.tree.selects(entry.Path):
			l.leftOut++
		default:
			return x, nil
		}
	}
}

// each calls yield for all entries that can be checked, until ctx ends.
func (l *lines) each(ctx context.Context, yield func(expectation) error) error {
	for {
		x, err := l.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = yield(x)
		}
		if err != nil {
			return err
		}
	}
}

// expectationOf returns the expectation of an entry. ok is false if no digest has a known
// algorithm.
func (s *treeManifest) expectationOf(entry manifest.Line) (x expectation, ok bool) {
	x = expectation{path: entry.Path, literal: entry.Literal, size: -1}
	if listed := entry.Listed; listed != nil {
		x.digests, x.size = listed.Digests, listed.Size
		return x, len(x.digests) > 0 || listed.SizeOnly
	}
	a := s.algorithm
	switch {
	case entry.Algorithm != "":
		a = hash.OfTag(entry.Algorithm)
	case a == "":
		a = hash.OfLength(len(entry.Digest))
	}
	if a == "" || a.Size() != len(entry.Digest) {
		return x, false
	}
	x.digests = []hash.Expected{{Algorithm: a, Digest: bytes.Clone(entry.Digest)}}
	return x, true
}

func (l *lines) malformed() int64 {
	n, _ := l.Malformed()
	return int64(n) + l.count
}

// complaint describes the lines of the manifest that could not be read, or returns nil.
func (l *lines) complaint() error {
	var parts []string
	add := func(n int64, numbers []int, one, many string) {
		if n == 0 {
			return
		}
		text := fmt.Sprintf("%d lines %s", n, many)
		if n == 1 {
			text = "1 line " + one
		}
		parts = append(parts, text+" (number "+list(numbers, n)+")")
	}
	n, numbers := l.Malformed()
	add(int64(n), numbers, "is improperly formatted", "are improperly formatted")
	add(l.count, l.foreign, "has a digest of another kind", "have digests of another kind")
	if parts == nil {
		return nil
	}
	return errors.New(strings.Join(parts, ", "))
}

// list formats the first few numbers of n.
func list(numbers []int, n int64) string {
	numbers = numbers[:min(len(numbers), maxNumbers)]
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
	if int64(len(numbers)) < n {
		text += ", ..."
	}
	return text
}
