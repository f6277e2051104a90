package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// bagSource is a source that is a bag. The read that copies its files validates it. openBag
// checks the tag files, check each file, and Absent finds missing files. The engine
// compares Oxum with the size that it has read.
type bagSource struct {
	declared bag.Declared
	info     bag.Info
}

var errUnlisted = errors.New("it is in the payload, and no payload manifest lists it")

// IsBag reports whether a source is a bag, and which known hashes its manifests have. The error
// is a *bag.UnsupportedError if Sealift cannot read the bag.
func IsBag(root *fsys.Dir) (hashes []hash.Algorithm, is bool, err error) {
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

// Oxum returns the size of the payload according to the bag, and the name of the file that has
// it; nil if there is none.
func (s *Source) Oxum() (o *bag.Oxum, file string) {
	if s.bag == nil {
		return nil, ""
	}
	return s.bag.info.Oxum, s.bag.declared.InfoName()
}
