package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxListed limits the different digests in a Listing. Two already contradict each other. A
// hostile manifest with a million of them must not need more memory.
const maxListed = 16

// A Listing has the digests of one path in a manifest. If lines contradict each other,
// Lookup returns no digest. A Listing has all of them, and no file can match it.
type Listing struct {
	// Digests has the first 16 different digests of the path, in the order of the file. It
	// is empty if the path is not listed. It belongs to the caller.
	Digests [][]byte

	entries []int // entries of the path in the Index
}

// Repeated reports whether several lines list the path.
func (p Listing) Repeated() bool { return len(p.entries) > 1 }

// Listing returns the digests of path in the manifest. It reads lines again. Several
// goroutines may call it, as Lookup.
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

// Each calls yield for all lines, in the order of the file. The digest is valid during the
// call. It reads the file again in bounded memory. The error is the first one of yield,
// unchanged, or that of reading the manifest, or says that the file changed since it was
// indexed.
func (ix *Index) Each(yield func(path string, digest []byte) error) error {
	return ix.readAgain(func(f fields) error {
		return yield(string(canonical(f.path)), f.digestOf(ix.algorithm))
	})
}

// readAgain calls yield for the entries of the index, in the order of the file. The fields are
// valid during the call. The error is that of yield, unchanged, or says that the file cannot be
// read or changed since it was indexed.
func (ix *Index) readAgain(yield func(fields) error) error {
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
		if err := yield(f); err != nil {
			return err
		}
	}
	if left != 0 {
		return fmt.Errorf("manifest: read again: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

// Meet records that the path of a listing exists. The listing is one of this Index. Several
// goroutines may call Meet.
func (ix *Index) Meet(p Listing) {
	for _, i := range p.entries {
		ix.meet(i)
	}
}

func (ix *Index) meet(i int) { ix.met[i/32].Or(1 << (i % 32)) }

func (ix *Index) isMet(i int) bool { return ix.met[i/32].Load()&(1<<(i%32)) != 0 }

// Unmet calls yield once for each listed path without a call of Meet, in the order of the
// file. It reads the file again in bounded memory. All calls of Meet must have returned.
//
// The error is the first one of yield, unchanged, or that of reading the manifest, or says
// that the file changed since it was indexed.
func (ix *Index) Unmet(yield func(path string) error) error {
	return ix.readAgain(func(f fields) error {
		path := canonical(f.path)
		i, found := ix.entry(path, f.offset)
		if !found {
			return changedAt(f.offset)
		}
		if ix.isMet(i) {
			return nil
		}
		if repeated, err := ix.listedBefore(string(path), i); err != nil || repeated {
			return err
		}
		return yield(string(path))
	})
}

// entry returns the number of the entry of a line: that of its path and its offset.
func (ix *Index) entry(path []byte, offset int64) (i int, found bool) {
	return slices.BinarySearch(ix.entries, ix.file.Entry(path, offset))
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
