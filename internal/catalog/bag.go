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
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// BagOptions make the destination a bag (RFC 8493).
type BagOptions struct {
	// Root is the root of the bag: the directory above the payload, which is the catalog's
	// root. If the source is a bag, Root is nil: the copy already has its manifests, so the
	// catalog writes nothing.
	Root   *fsys.Dir
	Shown  string // the root as the user would write it
	Sealed bool   // the bag is complete: the catalog reads its manifests, and writes nothing
	Info   []bag.Field
	Agent  string // the value of Bag-Software-Agent
	// Lines is the name of a line manifest that is written beside the tag files; "" for none.
	Lines string
	// Leftover are the tag files that an unfinished run has left.
	Leftover []string
}

// openBag opens the manifests of a complete bag. An incomplete bag has none yet.
func (c *Catalog) openBag() error {
	if !c.opts.Bag.Sealed || c.opts.Bag.Root == nil {
		return nil
	}
	for _, l := range c.lists {
		l.path = bag.ManifestName(l.algorithm)
		f, info, err := c.opts.Bag.Root.OpenRegular(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			return failure.Refuse("the bag %s is complete, and has no %s; choose another destination", quoteName(c.opts.Bag.Shown), l.path)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
		l.sealed = f
		if l.sealedLines, err = manifest.BuildCheckIndex(fsys.ReaderAt{File: f}, info.Size, manifest.BagIt, l.algorithm); err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
	}
	return nil
}

// keptInBag is Kept for a bag.
func (c *Catalog) keptInBag(file string) (digests hash.Digests, complete bool) {
	digests, complete = make(hash.Digests, len(c.lists)), true
	for _, l := range c.lists {
		if l.sealedLines != nil {
			digests[l.slot], _, _ = l.sealedLines.Lookup(bag.PayloadName + "/" + file) // a file without a digest is compared
		}
		complete = complete && digests[l.slot] != nil
	}
	return digests, complete
}

// tagFile is a file in the root of a bag, outside the payload.
type tagFile struct {
	name      string
	algorithm hash.Algorithm // of a manifest; "" for other files
	lines     int
	digests   hash.Digests
}

// writeBag writes the tag files of a complete payload: the manifests, bag-info.txt, and the
// tag manifests. When they are durable, bagit.txt makes the directory a bag. The run must
// have completed every file.
func (c *Catalog) writeBag() (written []Written, err error) {
	o := c.opts.Bag
	switch {
	case c.err != nil:
		return nil, c.err
	case o.Root == nil || o.Sealed:
		return nil, nil
	case c.noDigest != "":
		return nil, fmt.Errorf("%s is in the payload, and its digests are not known", quoteName(c.noDigest))
	}
	for _, name := range o.Leftover {
		if err := o.Root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", quoteName(name), err)
		}
	}
	var files []tagFile
	add := func(name string, a hash.Algorithm, compose composer) error {
		f, sum, err := c.writeTag(name, a, compose)
		if err != nil {
			return fmt.Errorf("%s: %w", quoteName(name), err)
		}
		files = append(files, f)
		written = append(written, Written{Path: filepath.Join(o.Shown, name), Algorithm: string(a), Lines: f.lines, SHA256: sum})
		return nil
	}
	for _, l := range c.lists {
		doc := manifest.Document{Format: manifest.BagIt, Hashes: []hash.Algorithm{l.algorithm}, Prefix: bag.PayloadName + "/"}
		if err := add(bag.ManifestName(l.algorithm), l.algorithm, c.lines(doc)); err != nil {
			return written, err
		}
	}
	if o.Lines != "" {
		a := c.lists[0].algorithm
		doc := manifest.Document{Hashes: []hash.Algorithm{a}, Prefix: bag.PayloadName + "/"}
		if err := add(o.Lines, a, c.lines(doc)); err != nil {
			return written, err
		}
	}
	info, err := c.bagInfo()
	if err != nil {
		return written, err
	}
	if err := add(bag.InfoName, "", textOf(info, 0)); err != nil {
		return written, err
	}
	declared := hash.NewSet(c.opts.Hashes)
	declared.Write([]byte(bag.Declaration))
	tags := append(slices.Clone(files), tagFile{name: bag.DeclarationName, digests: declared.Digests()})
	slices.SortFunc(tags, func(a, b tagFile) int { return strings.Compare(a.name, b.name) })
	for _, l := range c.lists {
		var lines []byte
		for _, f := range tags {
			lines = l.algorithm.AppendText(lines, f.digests[l.slot])
			lines = append(lines, "  "+manifest.BagItName(f.name)+"\n"...)
		}
		if err := add(bag.TagManifestName(l.algorithm), l.algorithm, textOf(lines, len(tags))); err != nil {
			return written, err
		}
	}
	if c.opts.Durable {
		if err := o.Root.Sync(); err != nil {
			return written, err
		}
	}
	if err := add(bag.DeclarationName, "", textOf([]byte(bag.Declaration), 0)); err != nil {
		return written, err
	}
	if c.opts.Durable {
		err = o.Root.Sync()
	}
	return written, err
}

// lines composes a manifest of the payload.
func (c *Catalog) lines(doc manifest.Document) composer {
	return func(w io.Writer) (manifest.Counts, error) { return c.builder.Write(w, doc) }
}

// textOf composes a file with this text, which has a number of lines of a manifest.
func textOf(text []byte, lines int) composer {
	return func(w io.Writer) (manifest.Counts, error) {
		_, err := w.Write(text)
		return manifest.Counts{Lines: lines}, err
	}
}

// bagInfo returns the content of bag-info.txt.
func (c *Catalog) bagInfo() ([]byte, error) {
	var sum bag.Oxum
	err := c.builder.Each(func(e manifest.Entry) error {
		sum.Files++
		sum.Bytes += e.Size
		return nil
	})
	fields := append(slices.Clone(c.opts.Bag.Info),
		bag.Field{Label: bag.LabelDate, Value: time.Now().Format(time.DateOnly)},
		bag.Field{Label: bag.LabelSize, Value: bag.Size(sum.Bytes)},
		bag.Field{Label: bag.LabelAgent, Value: c.opts.Bag.Agent},
		bag.Field{Label: bag.LabelOxum, Value: sum.String()},
	)
	return bag.AppendInfo(nil, fields), err
}

// writeTag writes a tag file, which must not exist, and returns its SHA-256 in hexadecimal.
func (c *Catalog) writeTag(name string, a hash.Algorithm, compose composer) (f tagFile, sum string, err error) {
	set := hash.NewSet(c.opts.Hashes)
	r := replacement{home: c.opts.Bag.Root, name: name, durable: c.opts.Durable, empty: true}
	r.compose = func(w io.Writer) (manifest.Counts, error) { return compose(io.MultiWriter(w, set)) }
	n, sum, err := r.write()
	return tagFile{name, a, n.Lines, set.Digests()}, sum, err
}
