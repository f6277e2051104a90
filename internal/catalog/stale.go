package catalog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/record"
)

// changes records which files the run has replaced, so that other manifests can be compared
// with them.
type changes struct {
	hashes   []hash.Algorithm // of the run
	replaced lookup.Set       // paths
	lines    []lookup.Set     // for each hash of the run: paths and digests
	fresh    []string         // names in the root that the run has created or replaced
}

func (s *changes) add(o record.Outcome) {
	if !strings.Contains(o.Path, "/") {
		if _, _, ok := manifest.Recognize(o.Path); ok {
			s.fresh = append(s.fresh, o.Path)
		}
	}
	if !o.Replaced {
		return
	}
	s.replaced.Add(o.Path)
	for slot := range s.lines {
		if o.Digests != nil {
			s.lines[slot].Add(pathAndDigest(o.Path, o.Digests[slot]))
		}
	}
}

// pathAndDigest is a path and a digest in changes.lines.
func pathAndDigest(path string, digest []byte) string { return path + "\x00" + string(digest) }

// warnStale applies rule 1. It warns of the other manifests in the root of the destination that
// are now out of date, in the order of their names. For a single file, it reads only manifests
// with the usual names and those of the file, because each of many files may have one.
func (m *manifests) warnStale() {
	if m.changes.replaced.Len() == 0 {
		return
	}
	warn := func(file string, err error) {
		m.Report(event.Event{Kind: event.Warning, Path: file, Target: m.Given, Err: err})
	}
	slices.Sort(m.changes.fresh)
	names, err := m.otherNames()
	for _, name := range names {
		if err != nil {
			break
		}
		var lines int
		if lines, err = m.changes.outdated(m.Root, name); lines == 1 {
			warn(name, errors.New("1 of its lines is out of date, because this copy replaced the files; it was left unchanged"))
		} else if lines > 1 {
			warn(name, fmt.Errorf("%d of its lines are out of date, because this copy replaced the files; it was left unchanged", lines))
		}
	}
	if err != nil {
		warn("", fmt.Errorf("cannot check which other manifests are out of date now: %w", err))
	}
}

// otherNames lists the manifests in the root that this run has not written.
func (m *manifests) otherNames() ([]string, error) {
	var found []string
	add := func(name string) {
		if _, fresh := slices.BinarySearch(m.changes.fresh, name); !fresh {
			found = append(found, name)
		}
	}
	if m.File != "" {
		for _, a := range hash.Algorithms() {
			for _, name := range append(a.FileNames(), m.File+"."+a.Extension()) {
				if !m.isManifest(name) {
					add(name)
				}
			}
		}
		return found, nil
	}
	err := m.Root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if _, _, ok := manifest.Recognize(string(name)); ok && !m.isManifest(string(name)) {
			add(string(name))
		}
		return true
	})
	slices.Sort(found)
	return found, err
}

// outdated counts the lines of a manifest for files that the run has replaced by other
// content.
func (s *changes) outdated(root *fsys.Dir, name string) (int, error) {
	algorithm, format, ok := manifest.Recognize(name)
	if !ok {
		return 0, nil
	}
	f, info, err := root.OpenRegular(name)
	if fsys.NoSuchFile(err) || errors.As(err, new(*fsys.KindError)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if manifest.IsAppleDouble(name, fsys.ReaderAt{File: f}) {
		return 0, nil
	}
	lines := manifest.NewReader(f.Reader(info.Size), format, algorithm)
	count := 0
	for {
		l, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, fmt.Errorf("%s: %w", quoteName(name), err)
		}
		listed := []hash.Expected{{Algorithm: algorithm, Digest: l.Digest}}
		if l.Listed != nil {
			listed = l.Listed.Digests
		}
		if file := strings.TrimPrefix(l.Path, "./"); s.replaced.Has(file) && !s.hasWritten(file, listed) {
			count++
		}
	}
}

// hasWritten reports whether the run has replaced a file with content that has one of the
// digests.
func (s *changes) hasWritten(file string, listed []hash.Expected) bool {
	return slices.ContainsFunc(listed, func(l hash.Expected) bool {
		slot := slices.Index(s.hashes, l.Algorithm)
		return slot >= 0 && s.lines[slot].Has(pathAndDigest(file, l.Digest))
	})
}
