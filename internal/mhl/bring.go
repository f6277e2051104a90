package mhl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// ErrDiverged means that neither of two chains extends the other.
var ErrDiverged = errors.New("the histories of source and destination have diverged: neither chain extends the other")

// extends reports whether a chain begins with all links of another one.
func extends(longer, shorter []Link) bool {
	return len(longer) >= len(shorter) && slices.EqualFunc(longer[:len(shorter)], shorter, func(a, b Link) bool {
		return a.Name == b.Name && bytes.Equal(a.C4, b.C4)
	})
}

// CheckBring returns ErrDiverged, with the path of the history, if Bring cannot copy the
// histories of the tree into the tree to.
func (t *Tree) CheckBring(to *Tree) error {
	for _, h := range t.histories {
		there := to.At(h.Path)
		if there != nil && !extends(there.Chain, h.Chain) && !extends(h.Chain, there.Chain) {
			return &ChainError{join(h.Path, Folder), ErrDiverged}
		}
	}
	return nil
}

// Bring copies the histories of a tree into another tree, deepest first. To an existing
// history it adds the generations by which the source's chain is longer. It compares the
// generations with the chain once more. A new history appears when it is complete.
func (t *Tree) Bring(to *fsys.Dir, durable bool) error {
	finder, there := fsys.NewFinder(t.root, 4), fsys.NewFinder(to, 4)
	defer finder.Close()
	defer there.Close()
	for _, h := range slices.Backward(t.histories) {
		from, home := t.root, to
		var err error
		if h.Path != "" {
			if from, _, err = finder.Parent(h.Path + "/" + Folder); err == nil {
				home, _, err = there.Parent(h.Path + "/" + Folder)
			}
		}
		if err == nil {
			err = bring(h, from, home, durable)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quote.Name(join(h.Path, Folder)), err)
		}
	}
	return nil
}

func bring(h *History, from, home *fsys.Dir, durable bool) error {
	source, err := from.OpenDir(Folder)
	if err != nil {
		return err
	}
	defer source.Close()
	var chain []Link
	folder, err := home.OpenDir(Folder)
	if err == nil {
		chain, _, err = readChainIn(folder)
		folder.Close()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case extends(chain, h.Chain):
		return nil
	case !extends(h.Chain, chain):
		return ErrDiverged
	}
	return inFolder(home, chain == nil, durable, func(folder *fsys.Dir) error {
		for i := len(chain); i < len(h.Chain); i++ {
			if err := bringLink(source, folder, h.Chain[:i], h.Chain[i], durable); err != nil {
				return &ChainError{join(Folder, h.Chain[i].Name), err}
			}
		}
		if chain != nil {
			return nil
		}
		return bringReadme(source, folder, durable)
	})
}

// bringLink copies the next generation of a chain.
func bringLink(source, folder *fsys.Dir, chain []Link, l Link, durable bool) error {
	f, info, err := source.OpenRegular(l.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = appendLink(folder, chain, l.Name, &info, durable, func(out io.Writer) error {
		sum := hash.C4.New()
		_, err := io.Copy(io.MultiWriter(out, sum), f.Reader(info.Size))
		if err == nil && !bytes.Equal(sum.Sum(nil), l.C4) {
			err = errChanged
		}
		return err
	})
	return err
}

// readmeName is the name of a text for people in a directory ascmhl.
const readmeName = "README.txt"

// bringReadme copies README.txt, which no generation lists.
func bringReadme(source, folder *fsys.Dir, durable bool) error {
	f, info, err := source.OpenRegular(readmeName)
	if err != nil {
		return nil //nolint:nilerr // there is none, or the name is not that of a regular file
	}
	defer f.Close()
	return create(folder, readmeName, &info, durable, func(out io.Writer) error {
		_, err := io.Copy(out, f.Reader(info.Size))
		return err
	})
}

// Settle completes the changes of an interrupted run to the tree's histories.
func (t *Tree) Settle(durable bool) error {
	finder := fsys.NewFinder(t.root, 4)
	defer finder.Close()
	for _, h := range t.histories {
		if !h.pending {
			continue
		}
		home, _, err := finder.Parent(join(h.Path, Folder))
		if err != nil {
			return err
		}
		err = inFolder(home, false, durable, func(folder *fsys.Dir) error {
			err := folder.Rename(pendingName, ChainName)
			if err == nil && durable {
				err = folder.Sync()
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", quote.Name(join(h.Path, Folder)), err)
		}
		h.pending = false
	}
	return nil
}
