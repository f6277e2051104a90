package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxListed is how many different digests a Listing has at most. Two cannot be
// kept any more; a hostile manifest with a million of them must cost no more.
const maxListed = 16

// A Listing is what a manifest lists for one path. Lookup finds no digest where lines
// contradict each other; a Listing has all of them, and no file can match it.
type Listing struct {
	// Digests holds the first 16 different digests that are listed, in the
	// order of the file; empty if the path is not listed. It belongs to the
	// caller.
	Digests [][]byte

	entries []int // of the path, in the Index
}

// Repeated reports whether several lines are about the path.
func (p Listing) Repeated() bool { return len(p.entries) > 1 }

// Listing returns what the manifest lists for path. It reads lines again and
// may be called from several goroutines, as Lookup.
func (ix *Index) Listing(path string) (Listing, error) {
	return ix.listing(path, func(fields) bool { return true })
}

// ListingAs returns what a BagIt manifest lists in lines that have exactly this name.
func (ix *Index) ListingAs(name string) (Listing, error) {
	path := string(appendPercentDecoded(nil, []byte(name)))
	return ix.listing(path, func(f fields) bool { return string(f.literal) == name })
}

func (ix *Index) listing(path string, is func(fields) bool) (Listing, error) {
	var p Listing
	err := ix.find(path, func(i int, f fields) (more bool) {
		if !is(f) {
			return true
		}
		digest := f.digestOf(ix.algorithm)
		p.entries = append(p.entries, i)
		if len(p.Digests) < maxListed && !slices.ContainsFunc(p.Digests, func(d []byte) bool { return bytes.Equal(d, digest) }) {
			p.Digests = append(p.Digests, bytes.Clone(digest))
		}
		return true
	})
	if err != nil {
		return Listing{}, err
	}
	return p, nil
}

// Each calls yield for all lines, in the order of the file. The digest is valid during the call.
// It reads the file anew and takes no memory that grows with it. The error is the first one of
// yield, as it is, or that of reading the manifest, or says that it changed since it was indexed.
func (ix *Index) Each(yield func(path string, digest []byte) error) error {
	r := ix.reader()
	left := len(ix.entries)
	for {
		f, err := r.scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("manifest: read again: %w", err)
		}
		if !f.isOf(ix.algorithm) {
			continue
		}
		left--
		if err := yield(string(canonical(f.path)), f.digestOf(ix.algorithm)); err != nil {
			return err
		}
	}
	if left != 0 {
		return fmt.Errorf("manifest: read again: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

// Meet notes that the path of a listing has been met. The listing is one of
// this Index. Meet may be called from several goroutines.
func (ix *Index) Meet(p Listing) {
	for _, i := range p.entries {
		ix.met[i/32].Or(1 << (i % 32))
	}
}

// Unmet calls yield for the paths that are listed and that no Meet has named, in
// the order of the file, each once. It reads the file anew and takes no memory
// that grows with it. The caller has ended all calls of Meet.
//
// The error is the first one of yield, as it is, or that of reading the manifest,
// or says that it changed since it was indexed.
func (ix *Index) Unmet(yield func(path string) error) error {
	r := ix.reader()
	left := len(ix.entries)
	for {
		f, err := r.scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("manifest: read for what is absent: %w", err)
		}
		if !f.isOf(ix.algorithm) {
			continue
		}
		path := canonical(f.path)
		i, found := slices.BinarySearch(ix.entries, ix.file.Entry(path, f.offset))
		if !found {
			return changedAt(f.offset)
		}
		left--
		if ix.met[i/32].Load()&(1<<(i%32)) != 0 {
			continue
		}
		if repeated, err := ix.listedBefore(string(path), i); err != nil {
			return err
		} else if repeated {
			continue
		}
		if err := yield(string(path)); err != nil {
			return err
		}
	}
	if left != 0 {
		return fmt.Errorf("manifest: read for what is absent: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

// listedBefore reports whether an entry before the i-th has the same path.
func (ix *Index) listedBefore(path string, i int) (yes bool, err error) {
	if first, _ := ix.file.Find(ix.entries, []byte(path)); first == i {
		return false, nil
	}
	err = ix.find(path, func(first int, _ fields) (more bool) {
		yes = first < i
		return false
	})
	return yes, err
}
