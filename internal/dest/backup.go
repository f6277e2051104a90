package dest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/route"
)

// Backups is the directory in which a destination keeps replaced files (--backup-dir). A file
// gets a hard link there before another file gets its name, so it has a name at every instant.
// If the run is stopped between these two steps, the next run finds the link and makes no
// second one.
type Backups struct {
	*route.Backup
	Kept atomic.Int64 // number of replaced names that are kept

	base    *fsys.Dir               // route.Backup.Parts is relative to it: the destination's root, unless Outside is set
	durable bool                    // Keep syncs what it makes
	id      atomic.Pointer[fsys.ID] // identity of the directory itself, once it exists
}

// BackupDir is the directory in Backups for the replaced files of one directory of the destination.
type BackupDir struct {
	Name  string
	Above *BackupDir // the one of the directory above; nil for that of the root
	// Access gives a new directory the owner, mode and ACLs of the destination's directory.
	Access func(*fsys.Dir) error

	mu    sync.Mutex // held while the directory is created
	named bool       // the directory and its ancestors have durable names
}

// OpenBackups opens as much of the backup directory as exists, and refuses a place that cannot keep
// files: another file system or a symbolic link. Keep creates directories that do not exist. If durable is
// set, Keep syncs what it makes.
func (d *Destination) OpenBackups(durable bool) error {
	if d.Backup == nil || d.Root == nil {
		return nil
	}
	refuse := func(why string) error {
		return failure.Refuse("the backup directory %s %s", quote.Name(d.Backup.Shown), why)
	}
	b := &Backups{Backup: d.Backup, base: d.Root, durable: durable}
	if b.Outside {
		var err error
		if b.base, err = b.Open(); err != nil {
			return refuse("cannot be opened: " + route.Reason(err))
		}
	}
	d.Backups = b
	dir, err := b.base.OpenDir(".")
	if err != nil {
		return err
	}
	defer func() { dir.Close() }()
	for i, name := range b.Parts {
		sub, err := dir.OpenDir(name)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil && fsys.IsSymlinkRefusal(err) {
			return refuse("is not usable: " + quote.Name(name) + " is a link or a file")
		}
		if err != nil {
			return refuse("cannot be opened: " + route.Reason(err))
		}
		dir.Close()
		dir = sub
		if i == len(b.Parts)-1 {
			if err := b.learn(dir); err != nil {
				return err
			}
		}
	}
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if info.ID.Dev != d.ID.Dev {
		return refuse("is on another file system than the destination; files are kept there by hard links")
	}
	return nil
}

// learn records the identity of the backup directory.
func (b *Backups) learn(dir *fsys.Dir) error {
	info, err := dir.Stat()
	if err == nil {
		b.id.Store(&info.ID)
	}
	return err
}

// Is reports whether id is the identity of the backup directory. A nil Backups has none.
func (b *Backups) Is(id fsys.ID) bool {
	if b == nil {
		return false
	}
	own := b.id.Load()
	return own != nil && *own == id
}

// Close closes the directory that OpenBackups has opened.
func (b *Backups) Close() {
	if b.Outside {
		b.base.Close()
	}
}

// Keep links the entry name of dir, a directory of the destination, into d. The link is durable when Keep
// returns, if that was requested.
func (b *Backups) Keep(d *BackupDir, dir *fsys.Dir, name string) error {
	old, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) { // another process has removed it
		return nil
	}
	var to *fsys.Dir
	if err == nil {
		to, err = b.open(d)
	}
	if err == nil {
		defer to.Close()
		if err = linkNumbered(dir, name, old.ID, to); err != nil && fsys.LinkRefused(err) {
			err = fmt.Errorf("hard links cannot be made there (FAT and exFAT have none): %w", err)
		}
	}
	if err == nil && b.durable {
		err = to.Sync()
	}
	if err != nil {
		err = fmt.Errorf("the file that it replaces cannot be kept in %s: %w", quote.Name(b.Shown), err)
	}
	return err
}

// linkNumbered links the entry name of dir into the directory to: under the same name, or the
// first free one that numbered makes of it. id is the identity of the entry. If one of these names
// belongs to the same file already, an interrupted run has linked it, and linkNumbered adds no
// name.
func linkNumbered(dir *fsys.Dir, name string, id fsys.ID, to *fsys.Dir) error {
	return numbered(name, func(kept string) error {
		err := dir.Link(name, to, kept)
		if errors.Is(err, fs.ErrExist) {
			if have, err := to.Lstat(kept); err == nil && have.ID == id {
				return nil
			}
		}
		return err
	})
}

// numbered calls use with name, NAME.~1~, NAME.~2~ and so on, until it does not return
// fs.ErrExist. If the file system cannot store a name of this length, numbered removes as many
// characters as necessary before the number.
func numbered(name string, use func(name string) error) error {
	err := use(name)
	for n := 1; errors.Is(err, fs.ErrExist); n++ {
		stem, number := name, fmt.Sprintf(".~%d~", n)
		err = use(stem + number)
		for range number { // each character of the number needs no more space than another one
			if err == nil || !fsys.NameTooLong(err) {
				break
			}
			_, size := utf8.DecodeLastRuneInString(stem)
			stem = stem[:len(stem)-size]
			err = use(stem + number)
		}
	}
	return err
}

// open opens a directory of Backups, and creates it and its ancestors if they do not exist. If a
// link or a file is kept under the name of a subdirectory, the subdirectory gets a number, as a second
// link or file would. The caller closes it.
func (b *Backups) open(d *BackupDir) (*fsys.Dir, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var dir *fsys.Dir
	var err error
	names := []string{d.Name}
	if d.Above != nil {
		dir, err = b.open(d.Above)
	} else {
		names = b.Parts
		dir, err = b.base.OpenDir(".")
	}
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		var sub *fsys.Dir
		err = numbered(name, func(name string) (err error) {
			sub, err = b.enter(d, dir, name)
			if d.Above != nil && err != nil && fsys.IsSymlinkRefusal(err) {
				return fs.ErrExist
			}
			return err
		})
		dir.Close()
		dir = sub
	}
	if err != nil {
		return nil, err
	}
	d.named = true
	if d.Above == nil && b.id.Load() == nil {
		if err := b.learn(dir); err != nil {
			dir.Close()
			return nil, err
		}
	}
	return dir, nil
}

// enter opens the subdirectory name of the backup directory up. If it does not exist, enter creates
// it. It syncs up if links are durable: without a durable name, the links in the directory would be lost
// in a power cut.
func (b *Backups) enter(d *BackupDir, up *fsys.Dir, name string) (*fsys.Dir, error) {
	sub, err := up.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		made := up.Mkdir(name)
		if made != nil && !errors.Is(made, fs.ErrExist) {
			return nil, made
		}
		sub, err = up.OpenDir(name)
		if err == nil && made == nil {
			err = d.Access(sub)
		}
	}
	if err == nil && b.durable && !d.named {
		err = up.Sync()
	}
	if err != nil {
		if sub != nil {
			sub.Close()
		}
		return nil, err
	}
	return sub, nil
}
