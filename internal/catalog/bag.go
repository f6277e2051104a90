package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/record"
)

// Bag is the record.Recorder that makes a destination a bag (RFC 8493).
type Bag struct {
	// Root is the root of the bag: the directory above the payload, which is the root of the
	// destination. If the source is a bag, Root is nil: the copy already has its manifests, so
	// nothing is written.
	Root   *fsys.Dir
	Sealed bool // the bag is complete: its manifests are read, and nothing is written
	Info   []bag.Field
	Agent  string // the value of Bag-Software-Agent
	// Lines is the name of a line manifest that is written beside the tag files; "" for none.
	Lines string
	// Leftover are the tag files that an unfinished run has left.
	Leftover []string
}

type bagBook struct {
	Bag
	record.NoBook
	*record.Destination
	sealed       []*sealedList
	noDigest     string // a file of the payload whose digests the run does not know
	needsJournal bool   // the next run completes the bag
}

// sealedList is a payload manifest of a complete bag.
type sealedList struct {
	file  *fsys.File
	index *manifest.Index
}

// Open implements record.Recorder. It opens the manifests of a complete bag. An incomplete bag has
// none yet.
func (b Bag) Open(d *record.Destination) (record.Book, error) {
	book := &bagBook{Bag: b, Destination: d}
	if err := book.openSealed(); err != nil {
		book.Close()
		return nil, err
	}
	return book, nil
}

func (b *bagBook) openSealed() error {
	if !b.Sealed || b.Bag.Root == nil {
		return nil
	}
	for _, a := range b.Hashes {
		name := bag.ManifestName(a)
		f, info, err := b.Bag.Root.OpenRegular(name)
		if errors.Is(err, fs.ErrNotExist) {
			return failure.Refuse("the bag %s is complete, and has no %s; choose another destination", quoteName(b.Given), name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l := &sealedList{file: f}
		b.sealed = append(b.sealed, l)
		if l.index, err = manifest.BuildCheckIndex(fsys.ReaderAt{File: f}, info.Size, manifest.BagIt, a); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Close implements record.Book.
func (b *bagBook) Close() {
	for _, l := range b.sealed {
		l.file.Close()
	}
	b.sealed = nil
}

// errSealed is the conflict of an entry that differs from a complete bag.
var errSealed = &record.Conflict{Why: "the bag is complete, and Sealift does not change it", Next: "make a new bag in another destination"}

// Claim implements record.Book.
func (b *bagBook) Claim(string) record.Claim {
	if b.Sealed {
		return record.Claim{Sealed: errSealed}
	}
	return record.Claim{}
}

// Kept implements record.Book.
func (b *bagBook) Kept(file string) record.Kept {
	digests := make(hash.Digests, len(b.Hashes))
	for slot, l := range b.sealed {
		digests[slot], _, _ = l.index.Lookup(bag.PayloadName + "/" + file) // a file without a digest is compared
	}
	return record.Kept{Digests: digests, Complete: record.IsComplete(digests)}
}

// Account implements record.Book.
func (b *bagBook) Account(o record.Outcome) error {
	if o.Digests == nil && !o.Failed && !o.Dropped && !o.Below && o.Path != "" { // a directory has no path here
		b.noDigest = o.Path
	}
	return nil
}

// NeedsJournal implements record.Book.
func (b *bagBook) NeedsJournal() bool { return b.needsJournal }

// Finish implements record.Book.
func (b *bagBook) Finish(end record.End) ([]record.Written, error) {
	switch {
	case end.Complete && end.Conflicts == 0:
		if end.Err != nil || b.Bag.Root == nil || b.Sealed {
			return nil, end.Err
		}
		return b.write()
	case !b.Sealed:
		b.needsJournal = true
		err := fmt.Errorf("the bag is incomplete and has no %s; run the same command again when the cause is removed", bag.DeclarationName)
		b.Report(event.Event{Kind: event.Warning, Target: b.Given, Err: err})
	}
	return nil, nil
}

// tagFile is a file in the root of a bag, outside the payload.
type tagFile struct {
	name    string
	lines   int
	digests hash.Digests
}

// write writes the tag files of a complete payload: the manifests, bag-info.txt, and the
// tag manifests. When they are durable, bagit.txt makes the directory a bag. The run must
// have completed every file.
func (b *bagBook) write() (written []record.Written, err error) {
	if b.noDigest != "" {
		return nil, fmt.Errorf("%s is in the payload, and its digests are not known", quoteName(b.noDigest))
	}
	root := b.Bag.Root
	for _, name := range b.Leftover {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", quoteName(name), err)
		}
	}
	var files []tagFile
	add := func(name string, a hash.Algorithm, compose composer) error {
		f, sum, err := b.writeTag(name, compose)
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(name), err)
		}
		files = append(files, f)
		written = append(written, record.Written{Path: filepath.Join(b.Given, name), Algorithm: string(a), Lines: f.lines, SHA256: sum})
		return nil
	}
	for _, a := range b.Hashes {
		doc := manifest.Document{Format: manifest.BagIt, Hashes: []hash.Algorithm{a}, Prefix: bag.PayloadName + "/"}
		if err := add(bag.ManifestName(a), a, b.lines(doc)); err != nil {
			return written, err
		}
	}
	if b.Lines != "" {
		a := b.Hashes[0]
		doc := manifest.Document{Hashes: []hash.Algorithm{a}, Prefix: bag.PayloadName + "/"}
		if err := add(b.Lines, a, b.lines(doc)); err != nil {
			return written, err
		}
	}
	info, err := b.bagInfo()
	if err != nil {
		return written, err
	}
	if err := add(bag.InfoName, "", textOf(info, 0)); err != nil {
		return written, err
	}
	declared := hash.NewSet(b.Hashes)
	declared.Write([]byte(bag.Declaration))
	tags := append(slices.Clone(files), tagFile{name: bag.DeclarationName, digests: declared.Digests()})
	slices.SortFunc(tags, func(x, y tagFile) int { return strings.Compare(x.name, y.name) })
	for slot, a := range b.Hashes {
		var lines []byte
		for _, f := range tags {
			lines = a.AppendText(lines, f.digests[slot])
			lines = append(lines, "  "+manifest.BagItName(f.name)+"\n"...)
		}
		if err := add(bag.TagManifestName(a), a, textOf(lines, len(tags))); err != nil {
			return written, err
		}
	}
	if b.Durable {
		if err := root.Sync(); err != nil {
			return written, err
		}
	}
	if err := add(bag.DeclarationName, "", textOf([]byte(bag.Declaration), 0)); err != nil {
		return written, err
	}
	if b.Durable {
		err = root.Sync()
	}
	return written, err
}

// lines composes a manifest of the payload.
func (b *bagBook) lines(doc manifest.Document) composer {
	return func(w io.Writer) (manifest.Counts, error) { return b.Files.Write(w, doc) }
}

// textOf composes a file with this text, which has a number of lines of a manifest.
func textOf(text []byte, lines int) composer {
	return func(w io.Writer) (manifest.Counts, error) {
		_, err := w.Write(text)
		return manifest.Counts{Lines: lines}, err
	}
}

// bagInfo returns the content of bag-info.txt.
func (b *bagBook) bagInfo() ([]byte, error) {
	var sum bag.Oxum
	err := b.Files.Each(func(e manifest.Entry) error {
		sum.Files++
		sum.Bytes += e.Size
		return nil
	})
	fields := append(slices.Clone(b.Info),
		bag.Field{Label: bag.LabelDate, Value: time.Now().Format(time.DateOnly)},
		bag.Field{Label: bag.LabelSize, Value: bag.Size(sum.Bytes)},
		bag.Field{Label: bag.LabelAgent, Value: b.Agent},
		bag.Field{Label: bag.LabelOxum, Value: sum.String()},
	)
	return bag.AppendInfo(nil, fields), err
}

// writeTag writes a tag file, which must not exist, and returns its SHA-256 in hexadecimal.
func (b *bagBook) writeTag(name string, compose composer) (f tagFile, sum string, err error) {
	set := hash.NewSet(b.Hashes)
	r := replacement{home: b.Bag.Root, name: name, durable: b.Durable, empty: true}
	r.compose = func(w io.Writer) (manifest.Counts, error) { return compose(io.MultiWriter(w, set)) }
	n, sum, err := r.write()
	return tagFile{name, n.Lines, set.Digests()}, sum, err
}
