package record

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// Books are the records at one destination. The zero value has none.
type Books struct {
	dest  *Destination
	books []Book
	err   error // the first error of recording
}

// Open opens the books of a destination. It writes nothing. The error is a *failure.RefusedError
// if one of the records cannot be written there. In a dry run without that directory, only the
// error, Claim and Close are of use.
func Open(d *Destination, recorders ...Recorder) (b Books, err error) {
	b.dest = d
	d.Shared = d.ReadsBack || len(recorders) > 1
	if len(d.Hashes) > 0 {
		d.Files = newFiles(d)
	}
	for _, r := range recorders {
		book, err := r.Open(d)
		if err != nil {
			b.Close()
			return Books{}, err
		}
		b.books = append(b.books, book)
	}
	return b, nil
}

// Resume sets what interrupted runs have changed at the destination; nil if there was none.
func (b *Books) Resume(i Interrupted) {
	if b.dest != nil {
		b.dest.Interrupted = i
	}
}

// Claim combines the claims of all books.
func (b *Books) Claim(path string) (all Claim) {
	for _, book := range b.books {
		c := book.Claim(path)
		all.Own = all.Own || c.Own
		all.Guarded, all.Sealed = cmp.Or(all.Guarded, c.Guarded), cmp.Or(all.Sealed, c.Sealed)
	}
	return all
}

// Kept combines the digests of all books. If several have a digest of one hash, the last one counts.
func (b *Books) Kept(path string) (all Kept) {
	if b.dest.More {
		return Kept{}
	}
	for _, book := range b.books {
		k := book.Kept(path)
		switch {
		case all.Digests == nil:
			all = k
		case k.Digests != nil:
			for slot, digest := range k.Digests {
				if digest != nil {
					all.Digests[slot] = digest
				}
			}
			all.Line, all.Complete = 0, IsComplete(all.Digests)
		}
	}
	return all
}

// IsComplete reports whether each hash has a digest.
func IsComplete(digests hash.Digests) bool {
	return !slices.ContainsFunc(digests, func(d []byte) bool { return d == nil })
}

// Accepts returns the first error of the books.
func (b *Books) Accepts(path string, digests hash.Digests, changes bool) error {
	return b.each(func(book Book) error { return book.Accepts(path, digests, changes) })
}

// Omits reports whether one of the books leaves out a file.
func (b *Books) Omits(path string) bool {
	return slices.ContainsFunc(b.books, func(book Book) bool { return book.Omits(path) })
}

// BeforeChange is called before an entry gets a name at the destination.
func (b *Books) BeforeChange(path string) error {
	return b.each(func(book Book) error { return book.BeforeChange(path) })
}

// BeforeChanges is BeforeChange for any number of names.
func (b *Books) BeforeChanges() error { return b.each(Book.BeforeChanges) }

func (b *Books) each(do func(Book) error) error {
	for _, book := range b.books {
		if err := do(book); err != nil {
			return err
		}
	}
	return nil
}

// Account records an outcome. After an error, Finish writes nothing and returns that error.
func (b *Books) Account(o Outcome) {
	if b.dest == nil {
		return
	}
	o.Digests = o.Digests[:min(len(b.dest.Hashes), len(o.Digests))]
	b.Fail(b.each(func(book Book) error { return book.Account(o) }))
	if b.dest.Files != nil {
		b.Fail(b.dest.Files.account(o))
	}
}

// Fail records that nothing can be written, and why. A nil error has no effect.
func (b *Books) Fail(err error) { b.err = cmp.Or(b.err, err) }

// Err returns the first error of Fail or of recording.
func (b *Books) Err() error { return b.err }

// Of returns the first book of a type, or the zero value.
func Of[T any](b *Books) (found T) {
	for _, book := range b.books {
		if t, ok := book.(T); ok {
			return t
		}
	}
	return found
}

// Lists reports whether the run lists the files that it copies.
func (b *Books) Lists() bool {
	return b.err == nil && b.dest != nil && len(b.dest.Hashes) > 0
}

// Lines yields the files that the run is going to list, in the order of the manifests. The
// digests are those of all hashes, and are valid until the next file. If the temporary file
// cannot be read, nothing will be written.
func (b *Books) Lines() iter.Seq2[string, hash.Digests] {
	return func(yield func(string, hash.Digests) bool) {
		if !b.Lists() {
			return
		}
		enough := errors.New("enough")
		add := func(file string, digests hash.Digests) error {
			if !yield(file, digests) {
				return enough
			}
			return nil
		}
		err := b.dest.Files.Each(func(e manifest.Entry) error { return add(e.Path, e.Digests) })
		if !errors.Is(err, enough) {
			b.Fail(err)
		}
	}
}

// Finish writes all records, when all files are at the destination and durable.
func (b *Books) Finish(end End) (written []Written, err error) {
	end.Err = b.err
	for _, book := range b.books {
		more, err := book.Finish(end)
		written = append(written, more...)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// NeedsJournal reports whether the next run needs the journal of this one to continue a record.
func (b *Books) NeedsJournal() bool { return slices.ContainsFunc(b.books, Book.NeedsJournal) }

// Close closes all files. Records that were not written stay as before.
func (b *Books) Close() {
	for _, book := range b.books {
		book.Close()
	}
	if b.dest != nil && b.dest.Files != nil {
		_ = b.dest.Files.Close() // a temporary that is not needed any more
	}
}
