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

// bagBook is a bag. If the source is a bag, the copy already has its manifests, so nothing is written:
// Outer is nil then.
type bagBook struct {
	BagOptions
	foundBag
	record.NoBook
	*record.Destination
	lists        []*sealedList // of a complete bag, one for each hash
	noDigest     string        // a file of the payload whose digests the run does not know
	needsJournal bool          // the next run completes the bag
}

// sealedList is a payload manifest of a complete bag.
type sealedList struct {
	file  *fsys.File
	index *manifest.Index
}

func (b *bagBook) openSealed() error {
	if !b.sealed || b.Outer == nil {
		return nil
	}
	for _, a := range b.Hashes {
		name := bag.ManifestName(a)
		f, info, err := b.Outer.OpenRegular(name)
		if errors.Is(err, fs.ErrNotExist) {
			return failure.Refuse("the bag %s is complete, and has no %s; choose another destination", quoteName(b.Given), name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l := &sealedList{file: f}
		b.lists = append(b.lists, l)
		if l.index, err = manifest.BuildCheckIndex(fsys.ReaderAt{File: f}, info.Size, manifest.BagIt, a); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Close implements record.Book.
func (b *bagBook) Close() {
	for _, l := range b.lists {
		l.file.Close()
	}
	b.lists = nil
}

// errSealed is the conflict of an entry that differs from a complete bag.
var errSealed = &record.Conflict{Why: "the bag is complete, and Sealift does not change it", Next: "make a new bag in another destination"}

// Claim implements record.Book.
func (b *bagBook) Claim(string) record.Claim {
	if b.sealed {
		return record.Claim{Sealed: errSealed}
	}
	return record.Claim{}
}

// Kept implements record.Book.
func (b *bagBook) Kept(file string) record.Kept {
	digests := make(hash.Digests, len(b.Hashes))
	for slot, l := range b.lists {
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
		if end.Err != nil || b.Outer == nil || b.sealed {
			return nil, end.Err
		}
		return b.write()
	case !b.sealed:
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
	root := b.Outer
	for _, name := range b.leftover {
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
	r := replacement{home: b.Outer, name: name, durable: b.Durable, empty: true}
	r.compose = func(w io.Writer) (manifest.Counts, error) { return compose(io.MultiWriter(w, set)) }
	n, sum, err := r.write()
	return tagFile{name, n.Lines, set.Digests()}, sum, err
}
