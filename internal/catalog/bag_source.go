package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// bagSource is a source that is a bag. The read that copies its files validates it. openBag
// checks the tag files, check each file, Absent finds missing files, and CheckCount checks the size.
type bagSource struct {
	declared bag.Declared
	info     bag.Info
}

var errUnlisted = errors.New("it is in the payload, and no payload manifest lists it")

// FindBag reports whether a source, which the user has called given, is a bag, and which known hashes its
// manifests have. It refuses a bag that Sealift cannot read.
func FindBag(root *fsys.Dir, given string) (hashes []hash.Algorithm, is bool, err error) {
	hashes, is, err = findBag(root)
	if _, unsupported := errors.AsType[*bag.UnsupportedError](err); unsupported {
		return nil, false, failure.Refuse("the source %s is a bag: %s; --source-manifest=ignore copies it without a check", quoteName(given), err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, false, nil // the walk reports a source that must not be read
	}
	if err != nil {
		return nil, false, failure.Refuse("source %s: cannot check whether it is a bag: %s", quoteName(given), err)
	}
	return hashes, is, nil
}

// findBag is FindBag with the plain error, a *bag.UnsupportedError if Sealift cannot read the bag.
func findBag(root *fsys.Dir) (hashes []hash.Algorithm, is bool, err error) {
	_, err = root.Lstat(bag.DeclarationName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	payload, unknown := false, ""
	err = root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		s := string(name)
		a, format, ok := manifest.Recognize(s)
		switch {
		case ok && format == manifest.BagIt:
			payload = payload || bag.IsPayloadManifest(s)
			if !slices.Contains(hashes, a) {
				hashes = append(hashes, a)
			}
		case bag.IsPayloadManifest(s):
			unknown = s
		}
		return true
	})
	slices.Sort(hashes)
	if err == nil {
		_, err = readDeclaration(root)
		if _, unsupported := errors.AsType[*bag.UnsupportedError](err); !unsupported {
			err = nil // openBag reports it
		}
	}
	if err == nil && !payload && unknown != "" {
		err = &bag.UnsupportedError{Reason: "the algorithm of " + quoteName(unknown) + " is not supported, and the bag has no other payload manifest"}
	}
	return hashes, true, err
}

// readDeclaration reads bagit.txt.
func readDeclaration(root *fsys.Dir) (bag.Declared, error) {
	f, info, err := root.OpenRegular(bag.DeclarationName)
	if err != nil {
		return bag.Declared{}, err
	}
	defer f.Close()
	return bag.ReadDeclaration(f.Reader(info.Size))
}

// openBag reads the tag files, and checks that they agree with each other.
func (s *Source) openBag(declared bag.Declared, err error) (problems []Problem) {
	s.bag = &bagSource{declared: declared}
	invalid := func(name string, err error) { problems = append(problems, Problem{name, Mismatch, err}) }
	readTag := func(name string, read func(io.Reader) error) {
		f, info, err := s.root.OpenRegular(name)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err == nil {
			err = read(declared.Encoding.NewReader(f.Reader(info.Size)))
			f.Close()
		}
		if err != nil {
			invalid(name, err)
		}
	}
	if err != nil {
		invalid(bag.DeclarationName, err)
	}
	readTag(declared.InfoName(), func(r io.Reader) (err error) {
		s.bag.info, err = bag.ReadInfo(r)
		return err
	})
	payload := false
	for _, l := range s.lists {
		payload = payload || l.isPayload()
		for _, tag := range s.lists {
			if l.isPayload() && tag.isBag && !tag.isPayload() && declared.IsFinal() && !tag.index.MayList(l.name) {
				invalid(l.name, fmt.Errorf("%s does not list it", tag.name))
			}
		}
	}
	if !payload {
		invalid(bag.DeclarationName, errors.New("the bag has no payload manifest"))
	}
	readTag(bag.FetchName, func(r io.Reader) error {
		return bag.ReadFetch(r, func(name string) error {
			for _, path := range manifest.BagItPaths(name) {
				if slices.ContainsFunc(s.lists, func(l *sourceList) bool { return l.isPayload() && l.index.MayList(path) }) {
					return nil
				}
			}
			return fmt.Errorf("it lists %s, and no payload manifest does", quoteName(name))
		})
	})
	return problems
}

// isPayload reports whether the list is a payload manifest of a bag.
func (l *sourceList) isPayload() bool { return l.isBag && bag.IsPayloadManifest(l.name) }

// check returns an error if a file of the source is invalid. found is the manifest's
// listing of that file.
func (b *bagSource) check(l *sourceList, file string, found manifest.Listing) error {
	inPayload, listed := bag.InPayload(file), len(found.Digests) > 0
	switch {
	case found.Repeated() && b.declared.IsFinal():
		return fmt.Errorf("%s lists it more than once", l.name)
	case l.isPayload() && inPayload && !listed && b.declared.IsFinal():
		return fmt.Errorf("%s does not list it", l.name)
	case l.isPayload() && !inPayload && listed:
		return fmt.Errorf("%s must not list it, because it is not below %s/", l.name, bag.PayloadName)
	case !l.isPayload() && inPayload && listed:
		return fmt.Errorf("%s must not list it, because it is in the payload", l.name)
	case !l.isPayload() && listed && bag.IsTagManifest(file):
		return fmt.Errorf("%s must not list it, because it is a tag manifest", l.name)
	}
	return nil
}

// listedInBag looks a path up under the names that programs write which do not encode all
// characters of RFC 8493. A line means the first path that exists.
func (s *Source) listedInBag(l *sourceList, file string) (found manifest.Listing, err error) {
	finder := fsys.NewFinder(s.root, 2)
	defer finder.Close()
	for _, name := range manifest.BagItNames(file) {
		found, err = l.index.ListingAs(name)
		if err != nil || len(found.Digests) == 0 {
			continue
		}
		for _, path := range manifest.BagItPaths(name) {
			if path == file {
				return found, nil
			}
			if _, err := finder.Lstat(path); err == nil {
				break
			}
		}
	}
	return manifest.Listing{}, err
}

// Irregular is Expect for an entry that is not a regular file.
func (s *Source) Irregular(path string) (x Expectation) {
	if s.validates && bag.InPayload(path) {
		x.invalid = errors.New("it is not a regular file, and a bag has no digest of it")
	}
	return x
}

// Count counts a file that was read, if it is in the payload of a bag that is validated. One goroutine
// at a time calls it.
func (s *Source) Count(path string, size int64) {
	if s.validates && bag.InPayload(path) {
		s.payload.Files++
		s.payload.Bytes += size
	}
}

// CheckCount returns an error if the number of bytes and files that were counted is not that of
// Payload-Oxum in the file of the bag that it also returns.
func (s *Source) CheckCount() (file string, err error) {
	if s.bag == nil || s.bag.info.Oxum == nil || *s.bag.info.Oxum == s.payload {
		return "", nil
	}
	return s.bag.declared.InfoName(), fmt.Errorf("%s is %s, and the payload has %s (bytes.files)", bag.LabelOxum, s.bag.info.Oxum, s.payload)
}
