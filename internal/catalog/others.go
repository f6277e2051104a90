package catalog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// changes records which files the run has replaced, so that other manifests can be compared
// with them.
type changes struct {
	replaced lookup.Set   // paths
	lines    []lookup.Set // for each hash of the run: paths and digests
	fresh    []string     // names in the root that the run has created or replaced
}

func (s *changes) add(o Outcome) {
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

// Stale is a manifest that is not this run's and lists files that the run has replaced.
type Stale struct {
	Path  string // relative to the destination
	Lines int    // number of lines that are out of date
}

// Stale applies rule 1. It returns the other manifests in the root of the destination that
// are now out of date, in the order of their names. For a single file, it reads only
// manifests with the usual names and those of the file, because each of many files may have
// one.
func (c *Catalog) Stale() ([]Stale, error) {
	if c.changes.replaced.Len() == 0 || c.opts.Bag != nil {
		return nil, nil
	}
	slices.Sort(c.changes.fresh)
	names, err := c.otherNames()
	if err != nil {
		return nil, err
	}
	var stale []Stale
	for _, name := range names {
		n, err := c.outdated(name)
		if err != nil {
			return stale, err
		}
		if n > 0 {
			stale = append(stale, Stale{name, n})
		}
	}
	return stale, nil
}

// otherNames lists the manifests in the root that this run has not written.
func (c *Catalog) otherNames() ([]string, error) {
	var found []string
	add := func(name string) {
		if _, fresh := slices.BinarySearch(c.changes.fresh, name); !fresh {
			found = append(found, name)
		}
	}
	if c.opts.File != "" {
		for _, a := range hash.Algorithms() {
			for _, name := range append(a.FileNames(), c.opts.File+"."+a.Extension()) {
				if !c.isPlace(name) {
					add(name)
				}
			}
		}
		return found, nil
	}
	err := c.root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if _, _, ok := manifest.Recognize(string(name)); ok && !c.isPlace(string(name)) {
			add(string(name))
		}
		return true
	})
	slices.Sort(found)
	return found, err
}

// outdated counts the lines of a manifest for files that the run has replaced by other
// content.
func (c *Catalog) outdated(name string) (int, error) {
	algorithm, format, ok := manifest.Recognize(name)
	if !ok {
		return 0, nil
	}
	f, info, err := c.root.OpenRegular(name)
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
		if file := strings.TrimPrefix(l.Path, "./"); c.changes.replaced.Has(file) && !c.hasWritten(file, listed) {
			count++
		}
	}
}

// hasWritten reports whether the run has replaced a file with content that has one of the
// digests.
func (c *Catalog) hasWritten(file string, listed []hash.Expected) bool {
	return slices.ContainsFunc(listed, func(l hash.Expected) bool {
		slot := slices.Index(c.opts.Hashes, l.Algorithm)
		return slot >= 0 && c.changes.lines[slot].Has(pathAndDigest(file, l.Digest))
	})
}
