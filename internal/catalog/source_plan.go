package catalog

import (
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
)

// This file reads manifests line by line, for plans. A plan stores the listed digests with
// each file, so that tasks on other machines need no manifest.

// SourceList is a manifest in the source. The name is "" for all manifests of one hash that
// list only the file beside them.
type SourceList struct {
	Name string
	Hash hash.Algorithm
}

// Lists returns the manifests of the source.
func (s *Source) Lists() (lists []SourceList) {
	for _, l := range s.lists {
		lists = append(lists, SourceList{l.name, s.hashes[l.slot]})
	}
	for _, a := range s.hashes {
		lists = append(lists, SourceList{"", a})
	}
	return lists
}

// EachListed calls yield for all entries of the manifests, with the index of the manifest
// in Lists. A file matches its manifests if Expectation.Met returns true for all digests
// that were yielded for its path. The error is that of yield, or a *ListError.
func (s *Source) EachListed(yield func(list int, file string, digest []byte) error) error {
	for i, l := range s.lists {
		var yieldErr error
		err := l.index.Each(func(file string, digest []byte) error {
			if file == l.name {
				return nil // no manifest can list its own digest
			}
			file, err := s.spelled(l, file)
			if err != nil || file == "" {
				return err
			}
			yieldErr = yield(i, file, digest)
			return yieldErr
		})
		if yieldErr != nil {
			return yieldErr
		}
		if err != nil {
			return &ListError{l.name, err}
		}
	}
	for file, sidecars := range s.sidecars {
		for _, c := range sidecars {
			digest, _, err := givenIn(s.root, c.name, file, s.hashes[c.slot], false)
			if err != nil {
				return &ListError{c.name, err}
			}
			if digest == nil {
				continue
			}
			if err := yield(len(s.lists)+c.slot, file, digest); err != nil {
				return err
			}
		}
	}
	return nil
}

// spelled returns the path that a line means, which may have the separators of Windows. It
// returns "" if the manifest also lists the file with slashes.
func (s *Source) spelled(l *sourceList, file string) (string, error) {
	if !strings.Contains(file, `\`) || strings.Contains(file, "/") {
		return file, nil
	}
	if _, err := s.root.Lstat(file); err == nil {
		return file, nil
	}
	slashed := strings.ReplaceAll(file, `\`, "/")
	found, err := l.index.Listing(slashed)
	if err != nil || len(found.Digests) > 0 {
		return "", err
	}
	return slashed, nil
}
