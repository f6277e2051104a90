package route

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Backup is the directory in which a destination keeps the files that are replaced.
type Backup struct {
	Shown string // path in the form in which the user would write it
	// Parts are the names of the directories that lead to it, from the destination's
	// directory if Outside is false, and else from the one that Open opens.
	Parts   []string
	Outside bool

	anchor string // nearest directory that exists, if Outside
	id     fsys.ID
	fs     *fsys.FS
}

// Open opens the directory that contains Parts, if it is outside the destination. The error
// is fsys.ErrMoved if another directory has the path now.
func (b *Backup) Open() (*fsys.Dir, error) {
	dir, _, err := openSame(b.fs.OpenTrustedRoot, b.anchor, b.id)
	return dir, err
}

// resolveBackups finds the backup directory of each destination, and refuses one that
// cannot work. Replaced files must never be among the files that are read or copied.
func resolveBackups(o *Options, rt *Route, src fs.FileInfo) error {
	if o.Backup == "" {
		return nil
	}
	if filepath.IsAbs(o.Backup) && len(rt.Destinations) > 1 {
		return failure.Refuse("an absolute --backup-dir cannot serve %d destinations; give a path relative to each", len(rt.Destinations))
	}
	taken := map[string]bool{}
	for i := range rt.Destinations {
		d := &rt.Destinations[i]
		place, err := d.resolveBackup(o.Backup)
		if err == nil {
			err = rt.checkBackup(o, d, place, src)
		}
		if err == nil && taken[place] && rt.Name == "" {
			err = errors.New("is one directory for several destinations")
		}
		if err != nil {
			return failure.Refuse("--backup-dir %s %s; choose another", quote.Name(o.Backup), err.Error())
		}
		taken[place] = true
	}
	return nil
}

// resolveBackup sets the destination's Backup and returns its absolute path. Another user
// may have made the destination, so it follows no symbolic link in it.
func (d *Destination) resolveBackup(given string) (place string, err error) {
	rel := filepath.Clean(given)
	d.Backup = &Backup{Shown: filepath.Join(d.Shown, given), fs: d.FS}
	if filepath.IsLocal(rel) && rel != "." {
		place = filepath.Join(d.Dir, rel)
	} else {
		if !filepath.IsAbs(given) {
			given = filepath.Join(d.Dir, given)
		} else {
			d.Backup.Shown = given
		}
		anchor, rest, err := anchorOf(given)
		if err != nil {
			return "", errors.New("cannot be used: " + Reason(err))
		}
		place = filepath.Join(anchor, rest)
		rel = rest
		if below(place, d.Dir) {
			rel = strings.TrimLeft(place[len(d.Dir):], string(filepath.Separator))
		} else {
			d.Backup.Outside, d.Backup.anchor = true, anchor
			if d.Backup.id, err = identityOf(d.FS, anchor); err != nil {
				return "", errors.New("cannot be opened: " + Reason(err))
			}
		}
	}
	if rel != "" {
		d.Backup.Parts = strings.Split(rel, string(filepath.Separator))
	}
	return place, nil
}

// checkBackup returns why place cannot be the backup directory of d.
func (rt *Route) checkBackup(o *Options, d *Destination, place string, src fs.FileInfo) error {
	atOrBelow := func(dir, top string) bool { return fsys.SameName(dir, top) || below(dir, top) }
	names := d.Backup.Parts
	if d.Backup.Outside {
		names = strings.Split(place, string(filepath.Separator))
	}
	for _, name := range names {
		if fsys.IsTemp(name) || fsys.IsJournal(name) {
			return errors.New("has a name that Sealift reserves: " + quote.Name(name))
		}
	}
	for _, other := range rt.Destinations {
		switch {
		case other.Name != "" && atOrBelow(place, filepath.Join(other.Dir, other.Name)):
			return errors.New("is the destination itself")
		case other.Name != "":
		case atOrBelow(other.Dir, place):
			return errors.New("is the destination " + quote.Name(other.Given) + " or contains it")
		case other.Dir != d.Dir && below(place, other.Dir):
			return errors.New("is in another destination, " + quote.Name(other.Given))
		}
	}
	for _, m := range d.manifests(o) {
		if m = filepath.Clean(m); atOrBelow(m, place) || below(place, m) {
			return errors.New("is the place of the manifest " + quote.Name(filepath.Base(m)))
		}
	}
	if rt.Name != "" {
		return nil
	}
	inside, err := isInside(place, src)
	if err != nil {
		return errors.New("cannot be used: " + Reason(err))
	}
	from, err := rt.SourcePath()
	if err != nil {
		return errors.New("cannot be compared with the source: " + Reason(err))
	}
	if inside || below(from, place) {
		return errors.New("is in the source or contains it")
	}
	if !d.Backup.Outside {
		return rt.checkCounterpart(d.Backup.Parts)
	}
	return nil
}

// checkCounterpart returns an error if an entry of the source would be copied to the path
// parts of the destination. The same holds for an entry that would be in the way of a
// directory there. Some destinations fold case.
func (rt *Route) checkCounterpart(parts []string) error {
	at := rt.dir
	for i, part := range parts {
		list, err := os.ReadDir(at)
		if err != nil {
			return nil //nolint:nilerr // the walk reports what cannot be read
		}
		var same fs.DirEntry
		for _, e := range list {
			if e.Name() == part || same == nil && strings.EqualFold(e.Name(), part) {
				same = e
			}
		}
		if same == nil {
			return nil
		}
		at = filepath.Join(at, same.Name())
		if i == len(parts)-1 || !same.IsDir() {
			return errors.New("is in the way of " + quote.Name(at) + ", which is to be copied there")
		}
	}
	return nil
}
