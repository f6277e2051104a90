package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/record"
)

// maxGiven is the largest size of a file that can be a publisher's digest.
const maxGiven = 1 << 20 // bytes

// Single is the record.Book of the manifest beside a single file. By rule 7, it may be older than
// the file, and of any form that verify reads.
type Single struct {
	*manifests
	digests hash.Digests // of the file, once they are known
	dropped bool         // the file at the destination has other content
}

func (s *Single) open() error {
	for _, l := range s.lists {
		l.path = s.File + "." + l.algorithm.Extension()
		if s.Root == nil {
			continue
		}
		if err := s.openBeside(l); err != nil {
			return s.refuse(l.path, err)
		}
	}
	return nil
}

func (s *Single) openBeside(l *list) (err error) {
	l.prev, err = openExisting(s.Root, l.path, l.algorithm)
	other := err
	if ignoreTaken(err) != nil {
		return err
	}
	if l.prev != nil {
		l.prev.path = l.path
	}
	if other == nil {
		if err := s.findAside(l); err != nil {
			return err
		}
	}
	switch {
	case l.prev != nil:
		if l.given, _, err = l.prev.index.Lookup(s.File); err == nil && l.given == nil {
			err = &takenError{"it does not list the file"}
		}
	case other != nil:
		if l.given, _, err = givenIn(s.Root, l.path, s.File, l.algorithm, true); err == nil && l.given == nil {
			err = other
		}
	}
	return err
}

// givenIn returns the digest that a file in root lists for the file name beside it. It returns nil
// if there is none, or several, or if the entry is not a regular file. bare is true for a digest
// without a name. alone is true if the file lists nothing else.
func givenIn(root *fsys.Dir, file, name string, a hash.Algorithm, bare bool) (digest []byte, alone bool, err error) {
	f, info, err := root.OpenRegular(file)
	if errors.As(err, new(*fsys.KindError)) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if info.Size > maxGiven {
		return nil, false, nil
	}
	content, err := io.ReadAll(f.Reader(info.Size))
	if err != nil {
		return nil, false, err
	}
	if digest, ok := a.AppendDigest(nil, bytes.TrimSpace(content)); bare && ok && len(digest) == a.Size() {
		return digest, true, nil
	}
	index, err := manifest.BuildCheckIndex(bytes.NewReader(content), int64(len(content)), manifest.GNU, a)
	if err != nil {
		return nil, false, err
	}
	digest, ok, err := index.Lookup(name)
	return digest, ok && index.Len() == 1 && index.Malformed() == 0, err
}

// Kept implements record.Book. No run has read the file and found a digest that only a publisher's
// manifest has.
func (s *Single) Kept(file string) record.Kept {
	k := s.manifests.Kept(file)
	for _, l := range s.lists {
		if l.prev == nil && l.given != nil {
			k.Digests[l.slot] = l.given
		}
	}
	return k
}

// Accepts implements record.Book. The manifest beside the file must not change if it is not own, or does
// not match the file that it is beside. Then the file gets no content with other digests, and no line.
func (s *Single) Accepts(_ string, digests hash.Digests, _ bool) error {
	for _, l := range s.lists {
		if l.given == nil || digests == nil || bytes.Equal(l.given, digests[l.slot]) {
			continue
		}
		if replaceable, err := s.matchesBeside(l); err != nil {
			return err
		} else if replaceable {
			continue
		}
		return &record.Mismatch{Err: fmt.Errorf("the source does not match %s at the destination: its %s is %s and should be %s",
			quoteName(l.path), l.algorithm, l.algorithm.Text(digests[l.slot]), l.algorithm.Text(l.given))}
	}
	return nil
}

// matchesBeside reports whether the existing manifest of a single file is own and has the digest of
// the file that exists beside it. A manifest that an unfinished run has moved aside was.
func (s *Single) matchesBeside(l *list) (bool, error) {
	if l.prev == nil || l.prev.killed {
		return l.prev != nil, nil
	}
	near, err := neighboursOf(s.Root, l.path)
	if err == nil {
		err = near.refuseCrowd(l.path, false)
	}
	if err != nil {
		return false, ignoreTaken(err)
	}
	return l.matches(s.Root, s.File)
}

// matches reports whether the regular file that exists beside a manifest in root has the digest in it.
func (l *list) matches(root *fsys.Dir, file string) (bool, error) {
	finder := fsys.NewFinder(root, 1)
	defer finder.Close()
	now, err := digestOf(finder, file, l.algorithm)
	if fsys.NoSuchFile(err) || errors.As(err, new(*fsys.KindError)) {
		return false, nil
	}
	return bytes.Equal(now, l.given), err
}

// stays reports whether the manifest beside a single file stays byte for byte. It does if it is
// not own, if it lists the digests that the run has read, or if the run has read nothing.
func (s *Single) stays(l *list) (bool, error) {
	if l.given == nil {
		return false, nil
	}
	if l.prev != nil && (s.dropped || s.digests != nil && !bytes.Equal(l.given, s.digests[l.slot])) {
		return false, nil
	}
	return true, s.moveBack(l.prev)
}

// Account implements record.Book.
func (s *Single) Account(o record.Outcome) error {
	if o.Dropped || o.Digests == nil && o.Replaced {
		s.dropped = true
	} else if o.Digests != nil {
		s.digests = o.Digests
	}
	return s.manifests.Account(o)
}

// Finish implements record.Book.
func (s *Single) Finish(end record.End) ([]record.Written, error) { return s.finish(end, s.stays) }
