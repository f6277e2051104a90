package resume

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Journal is the directory of a run in its destination, ".sealift-journal". It has the lock
// that excludes other runs, and the logs of unfinished copies. A run that completes removes
// it. One goroutine uses it, except for Create.
type Journal struct {
	// Removed means that Remove was called. The journal may then not show any more that the
	// copy is unfinished.
	Removed bool

	root *fsys.Dir
	name string
	dir  *fsys.Dir
	lock *fsys.Lock // lock of the journal; nil if the file system has no locks
	// since is the time when an earlier run created the journal, according to its lock; 0
	// if this run created it.
	since fsys.Time
	// foreign has the logs of unfinished copies from other sources, which stay.
	foreign map[string]bool
}

const (
	lockName = "lock"
	rootName = "root" // name of the mark of a destination directory that a run created

	// mostAttempts limits how often OpenJournal tries again after another run has
	// interfered. Each failure needs another run that begins or ends at that instant.
	mostAttempts = 100
)

// JournalName returns the name of the journal of a tree, or of a single file. If the name
// of a file is too long for a journal name, it is shortened and gets a hash.
func JournalName(file string) string {
	if file == "" {
		return fsys.Reserved + "journal"
	}
	if len(fsys.Reserved+file+".journal") > fsys.MaxName {
		file = strings.ToValidUTF8(file[:128], "") + "-" + hashOf(file)
	}
	return fsys.Reserved + file + ".journal"
}

// hashOf returns the XXH128 of s in hexadecimal digits.
func hashOf(s string) string {
	set := hash.NewSet([]hash.Algorithm{hash.XXH128})
	set.Write([]byte(s))
	return hex.EncodeToString(set.Digests()[0])
}

// ErrRootRemoved means that the destination's directory was removed after it was opened.
var ErrRootRemoved = errors.New("the directory was removed meanwhile")

// OpenJournal creates the journal in root, or opens that of an interrupted run, and locks
// it. The error is fsys.ErrLocked if another run has the lock, and a *PlanError if root has
// the mark of a plan. It is ErrRootRemoved if root does not exist any more. The caller must
// Close the journal.
func OpenJournal(root *fsys.Dir, name string) (*Journal, error) {
	for range mostAttempts {
		j, err := tryJournal(root, name)
		if err == nil {
			if err = j.refusePlanned(); err == nil {
				return j, nil
			}
			j.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		// Either a run that has just finished removed the journal between two steps here,
		// or root itself was removed. Most systems describe a removed directory without an
		// error.
		info, err := root.Stat()
		if err != nil {
			return nil, err
		}
		if info.Nlink == 0 {
			break
		}
	}
	return nil, ErrRootRemoved
}

func tryJournal(root *fsys.Dir, name string) (*Journal, error) {
	made := root.Mkdir(name)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, made
	}
	dir, err := openJournalDir(root, name, root.OwnerOfNew)
	if err != nil {
		if made == nil {
			_ = root.RemoveDir(name) // fails if another run has begun in it
		}
		return nil, err
	}
	j := &Journal{root: root, name: name, dir: dir, foreign: map[string]bool{}}
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
			_ = root.RemoveDir(name) // fails if another run has begun in it
		}
		return nil, err
	}
	return j, nil
}

// openJournalDir opens an existing journal. A journal decides which files are replaced. So it is an
// error if another user may have planted it: see fsys.Info.PlantedIn. us returns the user that new
// files belong to.
func openJournalDir(root *fsys.Dir, name string, us func() (uint32, error)) (*fsys.Dir, error) {
	dir, err := root.OpenDir(name)
	if err != nil {
		return nil, err
	}
	above, err := root.Stat()
	if err == nil && above.Mode&fsys.ModeSticky != 0 {
		err = refusePlanted(dir, name, above, us)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func refusePlanted(dir *fsys.Dir, name string, above fsys.Info, us func() (uint32, error)) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	uid, err := us()
	if err == nil && info.PlantedIn(above, uid) {
		err = fmt.Errorf("%s belongs to another user (%d), who can deceive this copy with it; remove it, or run the command as that user", quote.Name(name), info.UID)
	}
	return err
}

// MarkRoot records in the journal of that name that this run created the destination's
// directory. With durable, the mark is on the device before any other entry. Btrfs syncs a
// file with its directories, but not with the other files in them. Without durable, a power
// cut could restore the directory with a log but without the mark.
func MarkRoot(root *fsys.Dir, journal string, durable bool) error {
	dir, err := root.OpenDir(journal)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := put(dir, rootName, nil, false); err != nil || !durable {
		return err
	}
	return dir.Sync()
}

// put writes a file of a journal. If durable is set, its content is on the device before it has its name.
func put(dir *fsys.Dir, name string, content []byte, durable bool) error {
	p, err := dir.Compose(0, durable, func(w *fsys.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	defer p.Abort()
	return p.CommitReplacing(name)
}

// RootMarked reports whether an interrupted run created the destination's directory.
func (j *Journal) RootMarked() (bool, error) {
	_, err := j.dir.Lstat(rootName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// HoldsLogs reports whether the journal has, or may have, logs of unfinished copies.
func (j *Journal) HoldsLogs() bool {
	logs, err := j.logs()
	return len(logs) > 0 || err != nil
}

// logs returns the names of the logs.
func (j *Journal) logs() (names []string, err error) {
	listing, err := j.dir.List()
	if err != nil {
		return nil, err
	}
	for i := range listing.Len() {
		if name := listing.Name(i); IsLog(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Create makes a temporary file in the journal.
func (j *Journal) Create() (*fsys.Pending, error) { return j.dir.Create(false) }

// isOwn reports whether a name in a journal is that of a file of Sealift, or one that a file system
// makes.
func isOwn(name string) bool {
	switch name {
	case lockName, rootName, planName:
		return true
	}
	digits, isLog := strings.CutPrefix(strings.TrimPrefix(name, setAsidePrefix), logPrefix)
	isLog = isLog && strings.Trim(digits, "0123456789abcdef.") == ""
	return isLog || strings.HasPrefix(name, asidePrefix) || fsys.IsTemp(name) || fsys.IsMadeByFileSystem(name)
}

// Remove deletes the journal with its contents, and the lock last. Logs of unfinished
// copies from other sources and records of manifests that are still aside stay, and so does the
// directory. If the journal has a file that is
// not from Sealift, Remove deletes nothing. A user who may rename entries of the destination can
// give the name of the journal to a directory with other files.
func (j *Journal) Remove() error {
	listing, err := j.dir.List()
	if err != nil {
		return err
	}
	for i := range listing.Len() {
		if name := listing.Name(i); !isOwn(name) && !j.foreign[name] {
			return fmt.Errorf("%s has %s, which is not from Sealift, so nothing in it is removed; move that file away", quote.Name(j.name), quote.Name(name))
		}
	}
	stays, planned := false, false
	j.Removed = true
	for i := range listing.Len() {
		name := listing.Name(i)
		planned = planned || name == planName
		if name == lockName || name == planName { // last, because the next run can begin once they are removed
			continue
		}
		if j.foreign[name] || strings.HasPrefix(name, asidePrefix) {
			stays = true
			continue
		}
		if err := remove(j.dir, name); err != nil {
			return err
		}
	}
	if planned {
		if err := j.endPlan(); err != nil {
			return err
		}
	}
	if stays {
		return nil
	}
	if err := remove(j.dir, lockName); err != nil {
		return err
	}
	err = j.root.RemoveDir(j.name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	// FUSE keeps a removed file that is open under another name until it is closed, and
	// learns of the closing a little later.
	j.Close()
	for range 20 {
		if err = j.root.RemoveDir(j.name); !errors.Is(err, fs.ErrExist) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil // the next run has begun in it
}

// endPlan removes the mark of a plan when all other changes are on the device. Without the
// mark, a later merge treats the destination as complete.
func (j *Journal) endPlan() error {
	if err := errors.Join(j.dir.Sync(), j.root.Sync()); err != nil {
		return err
	}
	return j.removePlanMark()
}

// Close unlocks the journal, so that other runs can begin at the destination. It may be
// called again.
func (j *Journal) Close() {
	if j.lock != nil {
		j.lock.Unlock()
		j.lock = nil
	}
	if j.dir != nil {
		j.dir.Close()
		j.dir = nil
	}
}
