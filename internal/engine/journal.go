package engine

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// journalDir is the directory of a run in its destination, ".sealift-journal". It
// holds the lock that keeps other runs out and the log of what is on the device
// already (see ledger). A finished run removes it.
type journalDir struct {
	root *fsys.Dir
	name string
	dir  *fsys.Dir
	lock *fsys.Lock // nil where the file system has no locks
	// since is when the journal was made, as far as its lock tells; 0 for this run.
	since fsys.Time
	// removed says that remove has begun: the journal may not show any more that the copy
	// is unfinished.
	removed bool
}

const (
	lockName = "lock"
	rootName = "root" // says that the destination's directory was made by us
)

// journalName is the journal's name for a tree, or for a single file's name.
// A file's name that leaves no room is shortened and told apart by its hash.
func journalName(file string) string {
	if file == "" {
		return fsys.Reserved + "journal"
	}
	if len(fsys.Reserved+file+".journal") > fsys.MaxName {
		set := hash.NewSet([]hash.Algorithm{hash.XXH128})
		set.Write([]byte(file))
		file = strings.ToValidUTF8(file[:128], "") + "-" + hexString(set.Digests()[0])
	}
	return fsys.Reserved + file + ".journal"
}

// errRootRemoved says that the destination's directory was removed after it was opened.
var errRootRemoved = errors.New("the directory was removed meanwhile")

// openJournal makes the journal in root, or takes over what a dead run has
// left, and locks it. fsys.ErrLocked: another run is at work. errRootRemoved: nothing
// can be made in root any more.
func openJournal(root *fsys.Dir, name string) (*journalDir, error) {
	for range mostAttempts {
		j, err := tryJournal(root, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return j, err
		}
		// Either a run that has just finished removed the journal between our steps, or
		// root itself was removed. Most systems describe such a directory without an error.
		info, err := root.Stat()
		if err != nil {
			return nil, err
		}
		if info.Nlink == 0 {
			break
		}
	}
	return nil, errRootRemoved
}

func tryJournal(root *fsys.Dir, name string) (*journalDir, error) {
	made := root.Mkdir(name)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, made
	}
	dir, err := root.OpenDir(name)
	if err != nil {
		return nil, err
	}
	j := &journalDir{root: root, name: name, dir: dir}
	switch info, err := dir.Lstat(lockName); {
	case err == nil:
		j.since = info.Ctime
	case !errors.Is(err, fs.ErrNotExist):
		dir.Close()
		return nil, err
	}
	j.lock, err = dir.Lock(lockName)
	if err != nil && !fsys.Unsupported(err) {
		dir.Close()
		if made == nil {
			_ = root.RemoveDir(name) // not if somebody else has begun in it
		}
		return nil, err
	}
	return j, nil
}

// ownsRoot reports whether the destination's directory is of our making: of this
// run's, which is noted, or of an earlier one's that was interrupted. force: the
// note is on the device before anything else is. Btrfs forces a file with its
// directories, but not with the other files in them: a directory of our making
// would come back from a power cut with a log, and without the note.
func (j *journalDir) ownsRoot(created, force bool) (bool, error) {
	if !created {
		_, err := j.dir.Lstat(rootName)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	mark, err := j.dir.Create(false)
	if err != nil {
		return false, err
	}
	defer mark.Abort()
	if err := mark.CommitReplacing(rootName); err != nil || !force {
		return true, err
	}
	return true, j.dir.Sync()
}

// holdsWork reports whether interrupted runs have left anything in the journal.
func (j *journalDir) holdsWork() bool { return j.holds(isLog) }

func (j *journalDir) holds(what func(name string) bool) bool {
	listing, err := j.dir.List()
	if err != nil {
		return true // perhaps
	}
	for i := range listing.Len() {
		if what(listing.Name(i)) {
			return true
		}
	}
	return false
}

// remove deletes the journal with all it holds, and the lock with it. foreign
// names what is of a copy from another source, which is still unfinished: with
// such things the directory stays.
func (j *journalDir) remove(foreign func(name string) bool) error {
	listing, err := j.dir.List()
	if err != nil {
		return err
	}
	stays := false
	j.removed = true
	for i := range listing.Len() {
		if listing.Name(i) == lockName { // last: with it, the next run begins
			continue
		}
		if foreign(listing.Name(i)) {
			stays = true
			continue
		}
		if err := j.dir.Remove(listing.Name(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if stays {
		return nil
	}
	if err := j.dir.Remove(lockName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = j.root.RemoveDir(j.name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	// FUSE keeps an open file that was removed under another name until it is
	// closed, and hears of that a little later.
	j.close()
	for range 20 {
		if err = j.root.RemoveDir(j.name); !errors.Is(err, fs.ErrExist) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil // the next run has begun in it
}

// close lets others at the destination.
func (j *journalDir) close() {
	if j.lock != nil {
		j.lock.Unlock()
		j.lock = nil
	}
	if j.dir != nil {
		j.dir.Close()
		j.dir = nil
	}
}

func hexString(b []byte) string { return hex.EncodeToString(b) }
