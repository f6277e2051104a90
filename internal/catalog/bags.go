package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/record"
)

// BagOptions describe the tag files of new bags.
type BagOptions struct {
	Info  []bag.Field
	Agent string // the value of Bag-Software-Agent
	// Lines is the name of a line manifest that is written beside the tag files; "" for none.
	Lines string
}

// Bags is the record.Recorder that makes each destination a bag (RFC 8493). There are two cases:
//
//   - The source is a directory. The copy goes into the payload directory of a new bag, which
//     also holds the journal. Finish writes the tag files when the payload is complete.
//   - The source is a bag. The copy is then a bag without further work. Only bagit.txt is
//     written last, when everything else is complete and durable.
//
// A directory without bagit.txt is no bag. So no program takes an incomplete copy for a
// complete bag, even after a power cut, an interrupted run or a failed one.
type Bags struct {
	record.NoRecorder
	BagOptions
	sourceIsBag bool
	source      string // as the user gave it
	run         *record.Run
	found       map[string]foundBag // by the directory of the destination
	empty       quote.Few           // empty directories of the source
}

// foundBag is what a destination has of a bag before the run.
type foundBag struct {
	sealed   bool     // the bag is complete
	leftover []string // tag files and temporaries of an unfinished run
}

// NewBags refuses options that cannot be combined with --bag. backup and filtered mean that the run
// has a backup directory and filters.
func NewBags(source string, o BagOptions, hashes []hash.Algorithm, lists, backup, filtered bool) (*Bags, error) {
	b := &Bags{BagOptions: o, source: source, found: map[string]foundBag{}}
	_, err := os.Lstat(filepath.Join(source, bag.DeclarationName))
	b.sourceIsBag = err == nil
	switch {
	case lists:
		return nil, failure.Refuse("--mhl cannot be used with --bag: a bag has its own manifests")
	case backup:
		return nil, failure.Refuse("--backup-dir cannot be used with --bag: nothing in a bag is replaced, and each file in it would have to be listed")
	case b.sourceIsBag && filtered:
		return nil, failure.Refuse("the source %s is a bag, and a part of it would be none; copy it without filters", quoteName(source))
	case b.sourceIsBag && o.Lines != "":
		return nil, failure.Refuse("the source %s is a bag, which is copied unchanged; --manifest would add a file", quoteName(source))
	case b.sourceIsBag && len(o.Info) > 0:
		return nil, failure.Refuse("the source %s is a bag, which is copied unchanged; --bag-info would change it", quoteName(source))
	case len(hashes) == 0:
		return nil, failure.Refuse("a bag needs a hash")
	case o.Lines != "": // the source is no bag
		if err := b.refuseLines(len(hashes)); err != nil {
			return nil, err
		}
	}
	for _, a := range hashes {
		if !b.sourceIsBag && !slices.Contains(bag.Algorithms, a) {
			return nil, failure.Refuse("a bag has no manifest of %s; use md5, sha1, sha256 or sha512", a)
		}
	}
	return b, nil
}

// refuseLines refuses a value of --manifest that names no file in the root of the bag,
// or a file of the bag itself.
func (b *Bags) refuseLines(hashes int) error {
	name := b.Lines
	lower := strings.ToLower(name)
	switch {
	case hashes > 1:
		return failure.Refuse("--manifest names one file, but %d hashes make a manifest each", hashes)
	case filepath.Base(name) != name || name == "." || name == "..":
		return failure.Refuse("--manifest %s: with --bag, the line manifest is in the root of the bag; give a name without a directory", quoteName(name))
	case slices.Contains([]string{bag.PayloadName, bag.DeclarationName, bag.InfoName, bag.FetchName}, lower),
		bag.IsPayloadManifest(name), bag.IsTagManifest(name), incomplete.IsReserved(name, true, fsys.Unknown):
		return failure.Refuse("--manifest %s: the bag itself uses this name", quoteName(name))
	}
	return nil
}

// Refuse implements record.Recorder. It refuses a source with entries that a new bag cannot hold:
// anything but regular files and directories, and names that are not UTF-8.
func (b *Bags) Refuse(r *record.Run) error {
	b.run = r
	if b.sourceIsBag {
		return nil
	}
	var unfit quote.Unfit
	complete, err := r.Scan(func(path string, kind fsys.Kind) (enter bool) {
		switch {
		case kind != fsys.Regular && kind != fsys.Directory:
			unfit.Add(path, kind.String())
		case !utf8.ValidString(path):
			unfit.Add(path, "not UTF-8")
		default:
			return true
		}
		return false
	})
	names := unfit.String()
	if err != nil || !complete || names == "" { // a run that was stopped copies nothing
		return err
	}
	return failure.Refuse("a bag holds regular files with names in UTF-8 only, so nothing was copied: %s; leave them out with --exclude", names)
}

// Inspect implements record.Recorder. It accepts a destination that does not exist, is empty, holds an
// unfinished bag of the same source, or holds the complete bag, and refuses any other.
func (b *Bags) Inspect(p record.Place) error {
	root, err := b.run.FS.OpenTrustedRoot(cmp.Or(p.Outer, p.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := namesIn(root)
	if err != nil {
		return err
	}
	if slices.Contains(names, bag.DeclarationName) {
		b.found[p.Dir] = foundBag{sealed: true}
		return b.refuseOther(p, root)
	}
	if len(names) == 0 {
		return nil
	}
	if b.sourceIsBag {
		return b.refuseForeign(p, root, names)
	}
	payload, err := root.OpenDir(bag.PayloadName)
	if errors.Is(err, fs.ErrNotExist) {
		return refuseNotEmpty(p)
	}
	if err != nil {
		return err
	}
	defer payload.Close()
	inside, err := namesIn(payload)
	if err != nil {
		return err
	}
	if len(inside) > 0 {
		if err := b.refuseForeign(p, payload, inside); err != nil {
			return err
		}
	}
	var leftover []string
	for _, name := range names {
		switch {
		case name == bag.PayloadName, incomplete.IsName(name):
		case bag.IsPayloadManifest(name), bag.IsTagManifest(name), name == bag.InfoName, name == b.Lines, fsys.IsTemp(name):
			leftover = append(leftover, name)
		default:
			return failure.Refuse("destination %s has the entry %s, which is not of this bag", quoteName(p.Given), quoteName(name))
		}
	}
	b.found[p.Dir] = foundBag{leftover: leftover}
	return nil
}

// mostRootNames limits the names that Inspect reads of one directory.
const mostRootNames = 100_000

// namesIn returns the names in a directory, sorted.
func namesIn(dir *fsys.Dir) (names []string, err error) {
	err = dir.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		names = append(names, string(name))
		return len(names) < mostRootNames
	})
	slices.Sort(names)
	return names, err
}

// refuseNotEmpty returns the refusal of a destination with entries of unknown origin.
func refuseNotEmpty(p record.Place) error {
	return failure.Refuse("destination %s is not empty; a bag needs a new or an empty directory", quoteName(p.Given))
}

// refuseForeign refuses dir, which has the given entries, unless an unfinished copy of this source
// has made them. A directory whose only entry is a journal without logs is accepted, too: that copy
// wrote nothing.
func (b *Bags) refuseForeign(p record.Place, dir *fsys.Dir, names []string) error {
	logs, ofSource, err := b.run.Unfinished(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuseNotEmpty(p)
	case err != nil:
		return err
	case logs > 0 && !ofSource:
		return failure.Refuse("destination %s has an unfinished copy from another source", quoteName(p.Given))
	case logs == 0 && len(names) > 1:
		return refuseNotEmpty(p)
	}
	return nil
}

// refuseOther refuses a complete bag at the destination, unless an earlier copy of the same
// source can have made it. Sealift must have written a new bag. If the source is a bag, its bagit.txt
// and manifests must be equal.
func (b *Bags) refuseOther(p record.Place, root *fsys.Dir) error {
	if !b.sourceIsBag {
		f, info, err := root.OpenRegular(bag.InfoName)
		var found bag.Info
		if err == nil {
			found, err = bag.ReadInfo(f.Reader(info.Size))
			f.Close()
		}
		if err != nil || !strings.HasPrefix(found.Agent, bag.Agent) {
			return failure.Refuse("destination %s is a bag that Sealift has not written; choose another", quoteName(p.Given))
		}
		return nil
	}
	var names []string
	err := b.run.Root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if s := string(name); s == bag.DeclarationName || bag.IsPayloadManifest(s) || bag.IsTagManifest(s) {
			names = append(names, s)
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if equal, err := sameFile(b.run.Root, root, name); err != nil || !equal {
			return failure.Refuse("destination %s is another bag: its %s differs", quoteName(p.Given), quoteName(name))
		}
	}
	return nil
}

// Payload returns the directory of each destination that the copy goes to; "" for its root.
func (b *Bags) Payload() string {
	if b.sourceIsBag {
		return ""
	}
	return bag.PayloadName
}

// Last implements record.Recorder.
func (b *Bags) Last() string {
	if b.sourceIsBag {
		return bag.DeclarationName
	}
	return ""
}

// Open implements record.Recorder. It opens the manifests of a complete bag. An incomplete bag has
// none yet.
func (b *Bags) Open(d *record.Destination) (record.Book, error) {
	book := &bagBook{BagOptions: b.BagOptions, foundBag: b.found[d.Dir], Destination: d}
	if err := book.openSealed(); err != nil {
		book.Close()
		return nil, err
	}
	return book, nil
}

// Empty implements record.Recorder.
func (b *Bags) Empty(dir string) {
	if !b.sourceIsBag {
		b.empty.Add(dir)
	}
}

// Walked implements record.Recorder. The manifests of a bag do not list empty directories.
func (b *Bags) Walked() error {
	if b.empty.Count == 0 {
		return nil
	}
	slices.Sort(b.empty.Shown)
	what := "1 empty directory is"
	if b.empty.Count > 1 {
		what = fmt.Sprintf("%d empty directories are", b.empty.Count)
	}
	return fmt.Errorf("%s in the bag, and a bag does not record empty directories: %s", what, &b.empty)
}
