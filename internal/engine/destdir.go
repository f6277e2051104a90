package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// destDir is the counterpart of one source directory at one destination. The run creates the
// directory when the first entry is copied into it, or at the latest when the walk leaves it.
type destDir struct {
	target *target
	parent *destDir // parent directory; nil for the root
	src    *walk.Dir
	// unlisted: no manifest lists the files of the directory. It is that of an ASC MHL history, for instance.
	unlisted bool

	// mu is held while the directory is prepared. Later, it guards the fields up to appeared.
	mu    sync.Mutex
	state destState
	// existing contains the names that were in the directory before the run; nil if it is empty.
	existing  *nameSet
	owner     fsys.Info // owner, group and mode that new files get here
	ownerSet  bool
	askedMode uint32          // the mode that was requested for the file from which owner was read
	appeared  map[string]bool // names that exist, and that are not in existing; see collision

	// Preparing the directory sets these. They do not change until the walk leaves it.
	handle *fsys.Handle
	info   fsys.Info
	system *dest.FileSystem // file system of the directory, once it is open
	// fresh: this copy creates the directory, so it gets the source's metadata. An interrupted run
	// may have created it, or another task of a plan.
	fresh bool
	// empty: this run created the directory, or would in a real run, so it contains only entries of
	// this run.
	empty    bool
	replaced bool // this copy made the directory in place of a symbolic link, or would in a real run
	inherits bool // true if new entries get an ACL from its default ACL
	// originalMode is restored when the walk leaves a directory that does not get the source's
	// metadata.
	originalMode uint32
	tookOver     bool // true if it was read-only and was made writable

	refreshed string // the kinds of metadata that leaveDest updated, as text for people; "" for none

	backup *dest.BackupDir // keeps the files that are replaced here; nil if they are not kept
}

type destState uint8

const (
	destUntried destState = iota // The directory is neither made nor opened yet.
	destReady                    // The directory is open.
	destAbsent                   // In a dry run, the copy would make the directory.
	destRefused                  // The failure was reported; nothing below it is copied to this destination.
)

// destDirs is the State of a source directory: its counterpart at each target.
type destDirs []*destDir

func newDestDirs(r *placer, d *walk.Dir) destDirs {
	dirs := make(destDirs, len(r.targets))
	for i, t := range r.targets {
		dd := &destDir{target: t, src: d}
		if d.Parent != nil {
			dd.parent = d.Parent.State.(destDirs)[i]
			dd.unlisted = dd.parent.unlisted
		}
		if t.Backups != nil {
			dd.backup = &dest.BackupDir{Name: d.Name, Access: dd.copyAccess}
			if dd.parent != nil {
				dd.backup.Above = dd.parent.backup
			}
		}
		dirs[i] = dd
	}
	return dirs
}

// ready makes or opens the directory if that has not been tried yet.
func (dd *destDir) ready(r *placer) destState {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	if dd.state == destUntried {
		dd.state = dd.prepare(r)
	}
	return dd.state
}

// acquire returns the open directory. The caller must release it. If there is none, ok is false,
// and the reason was reported. If a dry run would create the directory, acquire returns nil and ok
// is true.
func (dd *destDir) acquire(r *placer) (*fsys.Dir, bool) {
	if dd.target.Dropped() {
		return nil, false
	}
	switch dd.ready(r) {
	case destReady:
		dir, err := dd.handle.Acquire()
		if err != nil {
			dd.target.Fail(dd.src.Path(), failure.StageOpen, err)
			return nil, false
		}
		return dir, true
	case destAbsent:
		return nil, true
	}
	return nil, false
}

func (dd *destDir) release(dir *fsys.Dir) {
	if dir != nil {
		dd.handle.Release()
	}
}

// prepare makes or opens the directory, and reports an error.
func (dd *destDir) prepare(r *placer) destState {
	t := dd.target
	if dd.parent == nil {
		return dd.prepareRoot(r)
	}
	switch dd.parent.ready(r) {
	case destAbsent:
		dd.fresh, dd.empty = true, true
		return destAbsent
	case destRefused:
		return destRefused
	}
	up, err := dd.parent.handle.Acquire()
	if err != nil {
		t.Fail(dd.src.Path(), failure.StageOpen, err)
		return destRefused
	}
	defer dd.parent.handle.Release()
	dir, err := dd.enter(r, up)
	var conflict *policy.Conflict
	switch {
	case errors.As(err, &conflict) && r.opts.Policy == policy.Never && t.records.Claim(dd.src.Path()).Sealed == nil:
		if r.rules.completes { // several tasks may find the same directory: only the merge counts it
			r.collector.messages <- message{result: &result{path: dd.src.Path(), targets: []targetResult{{target: t, done: outLeft}}}}
		}
		return destRefused
	case errors.As(err, &conflict):
		t.conflict(dd.src.Path(), conflict)
		return destRefused
	case err != nil:
		if errors.As(err, new(*collisionError)) { // an earlier manifest may list other entries under this name
			r.collector.record(t, record.Outcome{Path: dd.src.Path(), Below: true})
		}
		t.Fail(dd.src.Path(), failure.StageCreate, err)
		return destRefused
	case dir == nil:
		dd.fresh, dd.empty = true, true
		return destAbsent
	}
	info, err := dir.Stat()
	if err == nil {
		err = dd.recognize(r, info)
	}
	if err != nil {
		dir.Close()
		t.Fail(dd.src.Path(), failure.StageCreate, err)
		return destRefused
	}
	dd.handle = dd.parent.handle.Child(dd.src.Name, dir, info.ID)
	defer dd.handle.Release()
	return dd.inspect(r, dir)
}

// prepareRoot is prepare for the root of the destination, which is open already.
func (dd *destDir) prepareRoot(r *placer) destState {
	t := dd.target
	if t.Root == nil {
		dd.fresh, dd.empty = true, true
		return destAbsent
	}
	dd.handle, dd.empty = t.Handle, t.Created
	dd.fresh = dd.empty || r.rules.planned && t.RootOurs
	return dd.inspect(r, t.Root)
}

// recognize finds out whether this copy has created the directory, which was just opened and which
// info describes. The error says why nothing may be copied into it.
func (dd *destDir) recognize(r *placer, info fsys.Info) error {
	t := dd.target
	made, err := r.shared.recognize(dd, info)
	switch {
	case err != nil:
		return err
	case dd.empty && !t.IsOwnWork(info):
		return errExchanged
	}
	// A run created an unfinished directory that was interrupted, or that could not set its metadata.
	dd.fresh = dd.empty || made || t.Earlier != nil && info.IsUnfinished() && t.IsOwnWork(info)
	switch {
	case info.ID == r.sourceInfo.ID || info.ID == dd.src.Info.ID || t.ShowsSource(dd.src.Path()):
		return errIsSource
	case t.Backups.Is(info.ID):
		return errIsBackup
	}
	return nil
}

// errIsSource is the error for a destination directory that is the source's root, or the same
// directory as its counterpart in the source. It may also be a part of the source that is mounted there. That
// happens if SRC is inside DST, or with a bind mount. Copying into the directory would replace files
// of the source.
var errIsSource = errors.New("this directory of the destination is a directory of the source, so nothing was copied into it; choose another destination")

// errIsBackup is the error for a destination directory in which the run keeps replaced files.
var errIsBackup = errors.New("this directory of the destination is the backup directory, so nothing was copied to it; choose another --backup-dir")

// enter opens the directory, and creates it if it does not exist. In a dry run it returns nil
// without an error if it would create the directory.
func (dd *destDir) enter(r *placer, up *fsys.Dir) (*fsys.Dir, error) {
	name := dd.src.Name
	if !dd.parent.maybeExists(name) {
		if c := dd.target.records.Claim(dd.src.Path()); c.Sealed != nil {
			return nil, conflictOf(c.Sealed)
		}
		if r.opts.DryRun {
			return nil, nil
		}
		dir, err := dd.make(r, up, name)
		if !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
		alias, err := dd.parent.collision(up, name, dd.src.Parent, dd.src.Info)
		if err != nil {
			return nil, err
		}
		if alias != "" { // an earlier manifest may list the directory's files under its other spelling
			r.collector.record(dd.target, record.Outcome{Path: dd.src.Parent.Join(alias), Below: true})
		}
	}
	dir, err := up.OpenDir(name)
	if err == nil {
		return dir, nil
	}
	if fsys.NotPermitted(err) && r.rules.takesOver {
		dir, dd.originalMode, err = up.TakeOver(name)
		dd.tookOver = err == nil
		return dir, err
	}
	if errors.Is(err, fs.ErrNotExist) && !r.opts.DryRun { // removed since it was listed
		return dd.make(r, up, name)
	}
	if !fsys.IsSymlinkRefusal(err) {
		return nil, err
	}
	return dd.replaceLink(r, up, name)
}

// replaceLink replaces a symbolic link that has the name of the directory, under policy "always".
// Otherwise, and for an entry of another type, the error is a *policy.Conflict. In a dry run,
// replaceLink returns nil without an error.
func (dd *destDir) replaceLink(r *placer, up *fsys.Dir, name string) (*fsys.Dir, error) {
	have, err := up.Lstat(name)
	if err != nil {
		return nil, err
	}
	if have.Kind != fsys.Symlink {
		return nil, &policy.Conflict{Why: "a " + have.Kind.String() + " is in the way of the directory, so nothing in it was copied"}
	}
	if r.opts.Policy != policy.Always {
		return nil, &policy.Conflict{Why: "a symbolic link is in the way of the directory, so nothing in it was copied", By: policy.Always}
	}
	dd.replaced = true
	if r.opts.DryRun {
		return nil, nil
	}
	if err := dd.target.records.BeforeChanges(); err != nil {
		return nil, err
	}
	if kept := dd.target.Backups; kept != nil {
		if err := kept.Keep(dd.parent.backup, up, name); err != nil {
			return nil, err
		}
		kept.Kept.Add(1)
	}
	if err := r.mayCommit(dd.target); err != nil {
		return nil, err
	}
	if err := up.Remove(name); err != nil {
		return nil, err
	}
	r.collector.record(dd.target, record.Outcome{Path: dd.src.Path(), Below: true})
	return dd.make(r, up, name)
}

// make creates and opens the directory. Its mode is widened when it is complete.
func (dd *destDir) make(r *placer, up *fsys.Dir, name string) (*fsys.Dir, error) {
	if err := r.shared.mayMake(dd); err != nil {
		return nil, err
	}
	if err := up.MkdirUnfinished(name); err != nil {
		return nil, err
	}
	dd.empty = true
	return up.OpenDir(name)
}

// inspect reads the properties of the opened directory, and lists the names in it.
func (dd *destDir) inspect(r *placer, dir *fsys.Dir) destState {
	t := dd.target
	fail := func(err error) destState {
		t.Fail(dd.src.Path(), failure.StageOpen, err)
		return destRefused
	}
	var err error
	if dd.info, err = dir.Stat(); err != nil {
		return fail(err)
	}
	if r.rules.takesOver && !dd.empty && dd.info.Mode&0o300 != 0o300 && !dd.tookOver && !dir.Writable() {
		if err := dir.Chmod(dd.info.Mode | 0o700); err == nil {
			dd.tookOver, dd.originalMode = true, dd.info.Mode
		}
	}
	if dd.system, err = t.FileSystems.Find(dir, dd.info); err != nil {
		return fail(err)
	}
	mayInherit := !dd.fresh || dd.parent == nil || dd.parent.inherits
	if !r.opts.DryRun && mayInherit && dd.system.KeepsACLs() {
		if dd.inherits, err = dd.system.StripACL(dir, dd.fresh); err != nil {
			return fail(err)
		}
	}
	if t.Name != "" && !r.opts.DryRun && t.Earlier.Interrupted {
		if err = dd.list(r, dir, nil); err != nil {
			return fail(err)
		}
	}
	// The directory of a single file is not listed: it may be huge.
	if !dd.empty && t.Name == "" && !(r.rules.clean && !t.Earlier.Interrupted) {
		dd.existing = &nameSet{seed: r.names}
		if err = dd.list(r, dir, dd.existing); err != nil {
			return fail(err)
		}
		dd.existing.sort()
	}
	return destReady
}

// list removes the temporaries of interrupted runs from the opened directory. Unless names is nil,
// list adds all names in the directory to it.
func (dd *destDir) list(r *placer, dir *fsys.Dir, names *nameSet) error {
	var temps []string
	err := dir.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if names != nil {
			names.add(name)
		}
		if fsys.IsTemp(name) {
			temps = append(temps, string(name))
		}
		return true
	})
	if err != nil || r.opts.DryRun {
		return err
	}
	err = dd.target.Earlier.RemoveTemporaries(dir, temps)
	if fsys.NotPermitted(err) { // for example in an append-only directory
		dd.target.Journals.Keep.Store(true)
		dd.target.Fail(dd.src.Path(), failure.StageJournal, fmt.Errorf("removing temporary files of an interrupted copy: %w", err))
		return nil
	}
	return err
}

// maybeExists reports whether name may exist and has to be read: it existed before the
// run, or has appeared since.
func (dd *destDir) maybeExists(name string) bool {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	return dd.appeared[name] || !dd.empty && (dd.existing == nil || dd.existing.has(name))
}

// existed reports whether name was there before the run. The caller has opened the directory.
func (dd *destDir) existed(name string) bool {
	dd.mu.Lock()
	defer dd.mu.Unlock()
	return dd.existing != nil && dd.existing.has(name)
}

// copyAccess gives dir, a new backup directory, the owner, mode and ACLs of dd. The owner always gets
// read, write and search permission, because later runs link files into it.
func (dd *destDir) copyAccess(dir *fsys.Dir) error {
	have, err := dir.Stat()
	if err != nil {
		return err
	}
	if !dd.target.IsOwnWork(have) {
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
