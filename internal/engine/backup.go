package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/route"
)

// backup is the directory in which a destination keeps replaced files (--backup-dir). A file
// gets a hard link there before another file gets its name, so it has a name at every instant.
// If the run is stopped between these two steps, the next run finds the link and makes no
// second one.
type backup struct {
	*route.Backup
	base *fsys.Dir // route.Backup.Parts is relative to it: the destination's root, unless Outside is set

	id   atomic.Pointer[fsys.ID] // identity of the directory itself, once it exists
	kept atomic.Int64            // number of replaced names that are kept
}

// backupState is the state of the backup directory that corresponds to one directory of the
// destination. Its lock is held while that directory is created.
type backupState struct {
	sync.Mutex
	durable bool // the directory and its ancestors have durable names
}

// openBackup opens as much of the destination's backup directory as exists, and refuses a
// place that cannot keep files: another file system or a symbolic link. Directories that do not exist are created when the first file is kept.
func (t *target) openBackup(r *run) error {
	if t.Backup == nil || t.Root == nil || r.opts.Policy == policy.Never {
		return nil
	}
	refuse := func(why string) error {
		return failure.Refuse("the backup directory %s %s", quoteName(t.Backup.Shown), why)
	}
	t.backup = &backup{Backup: t.Backup, base: t.Root}
	if t.Backup.Outside {
		var err error
		if t.backup.base, err = t.Backup.Open(); err != nil {
			t.backup = nil
			return refuse("cannot be opened: " + route.Reason(err))
		}
	}
	dir, err := t.backup.base.OpenDir(".")
	if err != nil {
		return err
	}
	defer func() { dir.Close() }()
	for i, name := range t.Backup.Parts {
		sub, err := dir.OpenDir(name)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil && fsys.IsSymlinkRefusal(err) {
			return refuse("is not usable: " + quoteName(name) + " is a link or a file")
		}
		if err != nil {
			return refuse("cannot be opened: " + route.Reason(err))
		}
		dir.Close()
		dir = sub
		if i == len(t.Backup.Parts)-1 {
			if err := t.backup.learn(dir); err != nil {
				return err
			}
		}
	}
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if info.ID.Dev != t.ID.Dev {
		return refuse("is on another file system than the destination; files are kept there by hard links")
	}
	return nil
}

// learn records the identity of the backup directory.
func (b *backup) learn(dir *fsys.Dir) error {
	info, err := dir.Stat()
	if err == nil {
		b.id.Store(&info.ID)
	}
	return err
}

// is reports whether id is the identity of the backup directory. A nil backup has none.
func (b *backup) is(id fsys.ID) bool {
	if b == nil {
		return false
	}
	own := b.id.Load()
	return own != nil && *own == id
}

// closeBackup closes the directory that openBackup has opened.
func (t *target) closeBackup() {
	if t.backup != nil && t.backup.base != t.Root {
		t.backup.base.Close()
	}
}

// backUp links the entry name of dir into the backup directory of dd; dir is the open
// directory of dd. The link is durable when backUp returns, unless --sync=none was given.
func (r *placer) backUp(dd *destDir, dir *fsys.Dir, name string) error {
	old, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) { // another process has removed it
		return nil
	}
	var to *fsys.Dir
	if err == nil {
		to, err = r.backupDir(dd)
	}
	if err == nil {
		defer to.Close()
		if err = linkNumbered(dir, name, old.ID, to); err != nil && fsys.LinkRefused(err) {
			err = fmt.Errorf("hard links cannot be made there (FAT and exFAT have none): %w", err)
		}
	}
	if err == nil && r.opts.Sync != dest.SyncNone {
		err = to.Sync()
	}
	if err != nil {
		err = fmt.Errorf("the file that it replaces cannot be kept in %s: %w", quoteName(dd.target.Backup.Shown), err)
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

// backupDir opens the directory that keeps the replaced files of dd, and creates it and its
// ancestors if they do not exist. If a link or a file is kept under the name of a subdirectory,
// the subdirectory gets a number, as a second link or file would. The caller closes it.
func (r *placer) backupDir(dd *destDir) (*fsys.Dir, error) {
	dd.backup.Lock()
	defer dd.backup.Unlock()
	var dir *fsys.Dir
	var err error
	b, names := dd.target.backup, []string{dd.src.Name}
	if dd.parent != nil {
		dir, err = r.backupDir(dd.parent)
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
			sub, err = r.enterBackup(dd, dir, name)
			if dd.parent != nil && err != nil && fsys.IsSymlinkRefusal(err) {
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
	dd.backup.durable = true
	if dd.parent == nil && b.id.Load() == nil {
		if err := b.learn(dir); err != nil {
			dir.Close()
			return nil, err
		}
	}
	return dir, nil
}

// enterBackup opens the subdirectory name of the backup directory up. If it does not exist,
// enterBackup creates it with the owner and mode of dd. It syncs up unless --sync=none
// was given: without a durable name, the links in the directory would be lost in a power cut.
func (r *placer) enterBackup(dd *destDir, up *fsys.Dir, name string) (*fsys.Dir, error) {
	sub, err := up.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		made := up.Mkdir(name)
		if made != nil && !errors.Is(made, fs.ErrExist) {
			return nil, made
		}
		sub, err = up.OpenDir(name)
		if err == nil && made == nil {
			err = r.copyAccess(dd, sub)
		}
	}
	if err == nil && r.opts.Sync != dest.SyncNone && !dd.backup.durable {
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

// copyAccess gives dir, a new backup directory, the owner, mode and ACLs of the destination's
// directory dd. The owner always gets read, write and search permission, because later runs
// link files into it.
func (r *placer) copyAccess(dd *destDir, dir *fsys.Dir) error {
	have, err := dir.Stat()
	if err != nil {
		return err
	}
	if !dd.target.isOwnWork(have) {
		return errExchanged
	}
	like := &metadata.Values{Info: dd.info}
	switch {
	case dd.info.IsUnfinished(): // its final mode is set later
		like.Info.Mode = 0
	case dd.tookOver:
		like.Info.Mode = dd.originalMode
	}
	like.Info.Mode |= 0o700
	from, err := dd.handle.Acquire()
	if err != nil {
		return err
	}
	defer dd.handle.Release()
	if like.Xattrs, err = dd.system.ReplaceACLs(dir, from); err != nil {
		return err
	}
	_, err = dd.system.Apply(&dir.Object, like, have, true, false)
	return err
}
