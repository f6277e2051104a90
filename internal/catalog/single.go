package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"

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
// than the file, and of any form that verify reads.
func (c *Catalog) openSingle() error {
	for _, l := range c.lists {
		l.path = c.opts.File + "." + l.algorithm.Extension()
		if c.root == nil {
			continue
		}
		if err := c.openBeside(l); err != nil {
			return c.refuse(l.path, err)
		}
	}
	return nil
}

func (c *Catalog) openBeside(l *list) (err error) {
	l.prev, err = openOwn(c.root, l.path, l.algorithm)
	other := err
	if ignoreNotOwn(err) != nil {
		return err
	}
	if l.prev != nil {
		l.prev.path = l.path
	}
	if other == nil {
		if err := c.findAside(l); err != nil {
			return err
		}
	}
	switch {
	case l.prev != nil:
		if l.given, _, err = l.prev.index.Lookup(c.opts.File); err == nil && l.given == nil {
			err = &notOwnError{"it does not list the file"}
		}
	case other != nil:
		if l.given, _, err = givenIn(c.root, l.path, c.opts.File, l.algorithm, true); err == nil && l.given == nil {
			err = other
		}
	}
	return err
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

// Accepts returns an error if the single file must not be created or replaced by content with
// these digests, or listed. The reason is that the manifest beside it has another digest and
// must not change: it is not own, or does not match the file that it is beside.
func (c *Catalog) Accepts(digests hash.Digests) error {
	for _, l := range c.lists {
		if l.given == nil || digests == nil || bytes.Equal(l.given, digests[l.slot]) {
			continue
		}
		if replaceable, err := c.matchesBeside(l); err != nil {
			return err
		} else if replaceable {
			continue
		}
		return fmt.Errorf("the source does not match %s at the destination: its %s is %s and should be %s",
			quoteName(l.path), l.algorithm, l.algorithm.Text(digests[l.slot]), l.algorithm.Text(l.given))
	}
	return nil
}

// matchesBeside reports whether the existing manifest of a single file is own and has the digest of
// the file that exists beside it. A manifest that an unfinished run has moved aside was.
func (c *Catalog) matchesBeside(l *list) (bool, error) {
	if l.prev == nil || l.prev.killed {
		return l.prev != nil, nil
	}
	near, err := neighboursOf(c.root, l.path)
	if err == nil {
		err = near.refuseCrowd(l.path, false)
	}
	if err != nil {
		return false, ignoreNotOwn(err)
	}
	finder := fsys.NewFinder(c.root, 1)
	defer finder.Close()
	have, err := digestOf(finder, c.opts.File, l.algorithm)
	if fsys.NoSuchFile(err) || errors.As(err, new(*fsys.KindError)) {
		return false, nil
	}
	return bytes.Equal(have, l.given), err
}

// stays reports whether the manifest beside a single file stays byte for byte. It does if it is
// not own, if it lists the digests that the run has read, or if the run has read nothing.
func (c *Catalog) stays(l *list) (bool, error) {
	if !c.single() || l.given == nil {
		return false, nil
	}
	if l.prev != nil && (c.dropped || c.digests != nil && !bytes.Equal(l.given, c.digests[l.slot])) {
		return false, nil
	}
	return true, c.moveBack(l.prev)
}
