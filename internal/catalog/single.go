package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// maxGiven is the largest size of a file that can be a publisher's digest.
const maxGiven = 1 << 20 // bytes

// single reports whether the manifest is the one beside a single file.
func (c *Catalog) single() bool {
	return c.opts.File != "" && c.opts.Usual == "" && c.opts.Outside == ""
}

// openSingle applies rule 7: the manifest of a single file is beside it, and may be older
// than the file.
func (c *Catalog) openSingle() error {
	if c.root == nil {
		return nil
	}
	_, err := c.root.Lstat(c.opts.File)
	c.exists = err == nil
	if err != nil && !fsys.NoSuchFile(err) {
		return err
	}
	for _, l := range c.lists {
		l.path = c.opts.File + "." + l.algorithm.Extension()
		err = c.findPrevious(l, []place{{l.path, false}, {l.path, true}})
		foreign, isForeign := errors.AsType[*notOwnError](err)
		switch {
		case isForeign:
			// It may have any form that verify reads.
			if l.given, _, err = givenIn(c.root, l.path, c.opts.File, l.algorithm, true); err != nil {
				return err
			}
			if l.given == nil {
				return c.refuse(l.path, foreign)
			}
		case err != nil:
			return err
		case l.prev != nil:
			digest, listed, err := l.prev.index.Lookup(c.opts.File)
			if err != nil {
				return err
			}
			if !listed && l.prev.index.Len() > 0 {
				return c.refuse(l.path, &notOwnError{"it lists other files"})
			}
			if listed && !l.prev.killed && !c.exists { // it lists a file that does not exist, as a publisher's manifest does
				l.prev.close()
				l.prev, l.given = nil, digest
			}
		}
	}
	return nil
}

// givenIn returns the digest that a file in root lists for the file name beside it. It returns nil
// if there is none, or several, or if the entry is not a regular file. bare is true for a digest
// without a name. alone is true if the file lists nothing else.
func givenIn(root *fsys.Dir, file, name string, a hash.Algorithm, bare bool) (digest []byte, alone bool, err error) {
	f, info, err := root.OpenRegular(file)
	if errors.As(err, new(*fsys.KindError)) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if info.Size > maxGiven {
		return nil, false, nil
	}
	content, err := io.ReadAll(f.Reader(info.Size))
	if err != nil {
		return nil, false, err
	}
	if digest, ok := a.AppendDigest(nil, bytes.TrimSpace(content)); bare && ok && len(digest) == a.Size() {
		return digest, true, nil
	}
	index, err := manifest.BuildCheckIndex(bytes.NewReader(content), int64(len(content)), manifest.GNU, a)
	if err != nil {
		return nil, false, err
	}
	digest, ok, err := index.Lookup(name)
	return digest, ok && index.Len() == 1 && index.Malformed() == 0, err
}

// Accepts returns an error if the single file must not be created or replaced. The reason
// is that a manifest that stays has other digests than the source.
func (c *Catalog) Accepts(digests hash.Digests) error {
	for _, l := range c.lists {
		if l.given != nil && digests != nil && !bytes.Equal(l.given, digests[l.slot]) {
			return fmt.Errorf("the source does not match %s at the destination: its %s is %s and should be %s",
				quoteName(l.path), l.algorithm, l.algorithm.Text(digests[l.slot]), l.algorithm.Text(l.given))
		}
	}
	return nil
}

// stays reports whether the manifest beside a single file stays byte for byte. It does if
// it is a publisher's, if it lists the digests that the run has read, or if the run has
// read nothing.
func (c *Catalog) stays(l *list) (bool, error) {
	if !c.single() || l.given != nil {
		return l.given != nil, nil
	}
	if c.digests == nil && !c.dropped {
		return true, c.moveBack(l)
	}
	if c.dropped || l.prev == nil {
		return false, nil
	}
	digest, ok, err := l.prev.index.Lookup(c.opts.File)
	if err != nil || !ok || !bytes.Equal(digest, c.digests[l.slot]) {
		return false, err
	}
	return true, c.moveBack(l)
}

// moveBack renames the manifest back to its name.
func (c *Catalog) moveBack(l *list) error {
	if l.prev == nil || !l.prev.aside {
		return nil
	}
	if err := l.prev.home.RenameNew(l.prev.name, l.path); err != nil {
		return err
	}
	l.prev.aside, l.prev.name = false, l.path
	if c.opts.Durable {
		return l.prev.home.Sync()
	}
	return nil
}

// NeedsDigests reports whether the caller must call CheckGiven before it writes: the single
// file exists, and beside it is a manifest that is not Sealift's.
func (c *Catalog) NeedsDigests() bool {
	return c.exists && slices.ContainsFunc(c.lists, func(l *list) bool { return l.given != nil })
}

// CheckGiven refuses to replace the single file if a manifest beside it that Sealift may
// not change would become wrong. digests are those of the source.
func (c *Catalog) CheckGiven(digests hash.Digests) error {
	for _, l := range c.lists {
		if l.given != nil && !bytes.Equal(l.given, digests[l.slot]) {
			return failure.Refuse("%s was not written by Sealift and does not match the source; remove it, or name another manifest with --manifest",
				quoteName(c.shown(l.path)))
		}
	}
	return nil
}
