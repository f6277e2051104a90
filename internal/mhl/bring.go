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
)

// ErrDiverged says that neither of two chains extends the other.
var ErrDiverged = errors.New("the histories of source and destination have diverged: neither chain extends the other")

// extends reports whether a chain begins with all links of another one.
func extends(longer, shorter []Link) bool {
	return len(longer) >= len(shorter) && slices.EqualFunc(longer[:len(shorter)], shorter, func(a, b Link) bool {
		return a.Name == b.Name && bytes.Equal(a.C4, b.C4)
	})
}

// CheckBring returns ErrDiverged, with the place, if the histories of one tree cannot be
// brought into another one that has histories.
func (t *Tree) CheckBring(to *Tree) error {
	for _, h := range t.histories {
		there := to.At(h.Path)
		if there != nil && !extends(there.Chain, h.Chain) && !extends(h.Chain, there.Chain) {
			return &ChainError{join(h.Path, Folder), ErrDiverged}
		}
	}
	return nil
}

// stagingName is that of a history that is being brought, until it is complete.
const stagingName = fsys.Reserved + "ascmhl"

// Bring copies the histories of a tree into another tree, deepest first, as far as their
// chains extend those that are there. The generations are compared with the chain once more.
// A history that is not there yet appears when it is complete.
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
			return fmt.Errorf("%s: %w", join(h.Path, Folder), err)
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
	folder, err := home.OpenDir(Folder)
	if err == nil {
		defer folder.Close()
		chain, err := readChainIn(folder)
		if err != nil {
			return err
		}
		if extends(chain, h.Chain) {
			return nil
		}
		if !extends(h.Chain, chain) {
			return ErrDiverged
		}
		return bringLinks(h, source, folder, len(chain), durable)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := home.Mkdir(stagingName); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	staging, err := home.OpenDir(stagingName)
	if err != nil {
		return err
	}
	defer staging.Close()
	if err := empty(staging); err != nil { // of a run that was stopped
		return err
	}
	err = bringLinks(h, source, staging, 0, durable)
	if err == nil {
		err = fsys.IgnoreRefusal(staging.Chmod(0o777 &^ fsys.Umask()))
	}
	if err == nil {
		err = home.RenameNew(stagingName, Folder)
	}
	if err == nil && durable {
		err = home.Sync()
	}
	return err
}

// empty removes the files of a directory.
func empty(dir *fsys.Dir) error {
	var names []string
	err := dir.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		names = append(names, string(name))
		return true
	})
	for _, name := range names {
		err = errors.Join(err, dir.Remove(name))
	}
	return err
}

// bringLinks copies the generations behind the first few, README.txt, and then the chain.
func bringLinks(h *History, source, folder *fsys.Dir, known int, durable bool) error {
	w := &writer{order: &Order{Durable: durable}}
	for _, l := range h.Chain[known:] {
		sum := hash.C4.New()
		err := bringFile(w, source, folder, l.Name, sum)
		if err == nil && !bytes.Equal(sum.Sum(nil), l.C4) {
			err = errChanged
		}
		if err != nil {
			return &ChainError{join(Folder, l.Name), err}
		}
	}
	if known == 0 {
		if err := bringFile(w, source, folder, "README.txt", io.Discard); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := w.create(folder, ChainName, known > 0, func(out io.Writer) error { return WriteChain(out, h.Chain) })
	if err == nil && durable {
		err = folder.Sync()
	}
	return err
}

func bringFile(w *writer, source, folder *fsys.Dir, name string, sum io.Writer) error {
	f, info, err := source.OpenRegular(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.create(folder, name, false, func(out io.Writer) error {
		_, err := io.Copy(io.MultiWriter(out, sum), io.NewSectionReader(fsys.ReaderAt{File: f}, 0, info.Size))
		return err
	})
}
