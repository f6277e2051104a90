package engine

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// This file decides whether a run may make a bag at a destination.

// inspectBag accepts a destination that does not exist, is empty, holds an unfinished bag of
// the same source, or holds the complete bag, and refuses any other. It sets t.bag.sealed for
// a complete bag, and t.bag.leftover for an unfinished one.
func (r *run) inspectBag(t *target) error {
	if r.bagMode == bagNone {
		return nil
	}
	dir := t.BagDir
	if r.bagMode == bagAsIs {
		dir = t.Dir
	}
	root, err := t.FS.OpenTrustedRoot(dir)
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
		t.bag.sealed, err = true, r.refuseOtherBag(t, root)
		return err
	}
	if len(names) == 0 {
		return nil
	}
	if r.bagMode == bagAsIs {
		return r.refuseJournal(t, root, names)
	}
	payload, err := root.OpenDir(bag.PayloadName)
	if errors.Is(err, fs.ErrNotExist) {
		return refuseNotEmpty(t)
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
		if err := r.refuseJournal(t, payload, inside); err != nil {
			return err
		}
	}
	for _, name := range names {
		switch {
		case name == bag.PayloadName, incomplete.IsName(name):
		case bag.IsPayloadManifest(name), bag.IsTagManifest(name), name == bag.InfoName, name == r.opts.Manifest, fsys.IsTemp(name):
			t.bag.leftover = append(t.bag.leftover, name)
		default:
			return failure.Refuse("destination %s has the entry %s, which is not of this bag", quoteName(t.Given), quoteName(name))
		}
	}
	return nil
}

// mostRootNames limits the names that inspectBag reads of one directory.
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
func refuseNotEmpty(t *target) error {
	return failure.Refuse("destination %s is not empty; a bag needs a new or an empty directory", quoteName(t.Given))
}

// refuseJournal refuses dir, which has the given entries, unless its journal has a log of an
// unfinished copy of this source. A directory whose only entry is a journal without logs is
// accepted, too: that copy wrote nothing.
func (r *run) refuseJournal(t *target, dir *fsys.Dir, names []string) error {
	journal, err := dir.OpenDir(resume.JournalName(""))
	if errors.Is(err, fs.ErrNotExist) {
		return refuseNotEmpty(t)
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	source, err := r.route.SourcePath()
	if err != nil {
		return err
	}
	logs, own := 0, false
	err = journal.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if s := string(name); resume.IsLog(s) {
			logs++
			own = own || resume.IsLogOf(s, source)
		}
		return true
	})
	switch {
	case err != nil:
		return err
	case logs > 0 && !own:
		return failure.Refuse("destination %s has an unfinished copy from another source", quoteName(t.Given))
	case logs == 0 && len(names) > 1:
		return refuseNotEmpty(t)
	}
	return nil
}

// refuseOtherBag refuses a complete bag at the destination, unless an earlier copy of the same
// source can have made it. In bagMake, Sealift must have written the bag. In bagAsIs, its bagit.txt
// and manifests must equal those of the source.
func (r *run) refuseOtherBag(t *target, root *fsys.Dir) error {
	if r.bagMode == bagMake {
		f, info, err := root.OpenRegular(bag.InfoName)
		var have bag.Info
		if err == nil {
			have, err = bag.ReadInfo(f.Reader(info.Size))
			f.Close()
		}
		if err != nil || !strings.HasPrefix(have.Agent, bag.Agent) {
			return failure.Refuse("destination %s is a bag that Sealift has not written; choose another", quoteName(t.Given))
		}
		return nil
	}
	var names []string
	err := r.source.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if s := string(name); s == bag.DeclarationName || bag.IsPayloadManifest(s) || bag.IsTagManifest(s) {
			names = append(names, s)
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if equal, err := sameContent(r.source, root, name); err != nil || !equal {
			return failure.Refuse("destination %s is another bag: its %s differs", quoteName(t.Given), quoteName(name))
		}
	}
	return nil
}

// sameContent reports whether the regular files of one name in two directories have equal
// content.
func sameContent(a, b *fsys.Dir, name string) (bool, error) {
	f, info, err := a.OpenRegular(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, other, err := b.OpenRegular(name)
	if err != nil {
		return false, err
	}
	defer g.Close()
	if info.Size != other.Size {
		return false, nil
	}
	left, right := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); off < info.Size; off += int64(len(left)) {
		n := min(info.Size-off, int64(len(left)))
		if _, err := (fsys.ReaderAt{File: f}).ReadAt(left[:n], off); err != nil {
			return false, err
		}
		if _, err := (fsys.ReaderAt{File: g}).ReadAt(right[:n], off); err != nil {
			return false, err
		}
		if !bytes.Equal(left[:n], right[:n]) {
			return false, nil
		}
	}
	return true, nil
}
