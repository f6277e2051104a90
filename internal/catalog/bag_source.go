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
	version bag.Version
	info    bag.Info
}

var errUnlisted = errors.New("it is in the payload, and no payload manifest lists it")

// IsBag reports whether a source is a bag, and which known hashes its manifests have.
func IsBag(root *fsys.Dir) (hashes []hash.Algorithm, is bool, err error) {
	_, err = root.Lstat(bag.DeclarationName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	err = root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		a, format, ok := manifest.Recognize(string(name))
		if ok && format == manifest.BagIt && !slices.Contains(hashes, a) {
			hashes = append(hashes, a)
		}
		return true
	})
	slices.Sort(hashes)
	return hashes, true, err
}

// openBag reads the tag files, and checks that they agree with each other.
func (s *Source) openBag() (problems []Problem) {
	s.bag = &bagSource{}
	invalid := func(name string, err error) { problems = append(problems, Problem{name, Mismatch, err}) }
	readTag := func(name string, read func(io.Reader) error) {
		f, info, err := s.root.OpenRegular(name)
		if errors.Is(err, fs.ErrNotExist) && name != bag.DeclarationName {
			return
		}
		if err == nil {
			err = read(f.Reader(info.Size))
			f.Close()
		}
		if err != nil {
			invalid(name, err)
		}
	}
	readTag(bag.DeclarationName, func(r io.Reader) (err error) {
		s.bag.version, err = bag.ReadDeclaration(r)
		return err
	})
	readTag(bag.InfoName, func(r io.Reader) (err error) {
		s.bag.info, err = bag.ReadInfo(r)
		return err
	})
	payload := false
	for _, l := range s.lists {
		payload = payload || l.isPayload()
		for _, tag := range s.lists {
			if l.isPayload() && tag.isBag && !tag.isPayload() && s.bag.version.EachManifestIsComplete() && !tag.index.MayList(l.name) {
				invalid(l.name, fmt.Errorf("%s does not list it", tag.name))
			}
		}
	}
	if !payload {
		invalid(bag.DeclarationName, errors.New("the bag has no payload manifest of a known algorithm"))
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
	case found.Repeated():
		return fmt.Errorf("%s lists it more than once", l.name)
	case l.isPayload() && inPayload && !listed && b.version.EachManifestIsComplete():
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

// Oxum returns the size of the payload from bag-info.txt; ok is false if there is none.
func (s *Source) Oxum() (o bag.Oxum, ok bool) {
	if s.bag == nil || s.bag.info.Oxum == nil {
		return o, false
	}
	return *s.bag.info.Oxum, true
}
