package metadata

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// The kinds of metadata that a file system may be unable to keep. Report gets one of them.
const (
	kindOwner    = "owner"
	kindMode     = "mode"
	kindTimes    = "times"
	kindXattr    = "extended attributes"
	kindACL      = "ACLs"
	kindLinks    = "metadata of symbolic links"
	kindFarTimes = "far times"
)

// Store is what a file system of a destination can keep. It compares and sets metadata there. Several
// goroutines may use it.
type Store struct {
	Rules       *Rules
	Granularity int64 // granularity of modification times, in nanoseconds

	// The file system accepts chmod or chown without an error and does not store the result,
	// or hides it from this user, as sshfs does with -o umask. Modes or owners are then set on
	// new files, and not compared on others.
	ForgetsModes, ForgetsOwners bool

	// Report reports a kind of metadata that cannot be kept. It may be called several times for one kind.
	Report func(kind string, err error)

	lacks        sync.Map // kinds of metadata that the file system cannot store → true
	followsLinks answer   // reports whether setting metadata of a symbolic link changes its target
}

// SameTime reports whether two modification times are equal at the granularity of the file system.
func (s *Store) SameTime(a, b fsys.Time) bool { return a.Within(b, s.Granularity) }

// warn reports that the file system does not store a kind of metadata. If err says that it stores none
// of that kind, the run does not try again there. Any other refusal may concern only one file.
func (s *Store) warn(kind string, err error) {
	if fsys.Unsupported(err) {
		s.lacks.Store(kind, true)
	}
	s.Report(kind, err)
}

// cannot reports whether the file system is known to store no metadata of the kind.
func (s *Store) cannot(kind string) bool {
	_, lacks := s.lacks.Load(kind)
	return lacks
}

// KeepsACLs reports whether ACLs are copied to this file system, as far as is known.
func (s *Store) KeepsACLs() bool { return s.Rules.Preserve&PreserveACL != 0 && !s.cannot(kindACL) }

// Probe determines, with a new file p in dir, whether the file system accepts modes and owners without
// an error and does not store them. NTFS through FUSE does that by default.
func (s *Store) Probe(dir *fsys.Dir, p *fsys.Pending) error {
	if dir.SyncFSReliable() { // all of these file systems store both
		return nil
	}
	const owner = 1 // no new file has this owner or the mode OddMode
	acceptsModes := p.Chmod(fsys.OddMode) == nil
	acceptsOwners := s.Rules.Privileged && p.Chown(owner, owner) == nil
	info, err := p.Stat()
	s.ForgetsModes = acceptsModes && (info.Mode^fsys.OddMode)&^uint32(fsys.ModeAttributes) != 0
	s.ForgetsOwners = acceptsOwners && (info.UID != owner || info.GID != owner)
	return err
}

// LinksFollowed reports whether setting metadata of an entry in dir would change the file that it
// points to, because it is a symbolic link. That happens with sshfs: it sends a path to its server,
// which follows the link, even to a place outside the destination. It checks each file system once.
func (s *Store) LinksFollowed(dir *fsys.Dir, dst fsys.Info) (follows bool, err error) {
	if dst.Kind != fsys.Symlink {
		return false, nil
	}
	follows, err = s.followsLinks.get(func() (bool, error) { return followsLinks(dir) })
	switch {
	case Refused(err): // other directories may allow it
		s.Report(kindLinks, fmt.Errorf("times and owners of symbolic links cannot be kept there: %w", err))
		return true, nil
	case err != nil:
		return false, fmt.Errorf("checking whether metadata of symbolic links can be set: %w", err)
	case follows:
		s.Report(kindLinks, errors.New("times and owners of symbolic links cannot be kept there; what the links point to would get them"))
	}
	return follows, nil
}

// followsLinks creates a symbolic link to a name that does not exist and sets its metadata. If
// that fails because the file does not exist, the file system follows links.
func followsLinks(dir *fsys.Dir) (bool, error) {
	if dir.SyncFSReliable() { // none of these file systems follows links
		return false, nil
	}
	name := dir.TempName()
	if err := dir.Symlink(dir.TempName(), name, fsys.Info{}); err != nil {
		return false, err
	}
	defer dir.Remove(name) //nolint:errcheck // its reserved name marks it as Sealift's
	o, err := dir.OpenObject(name)
	if err != nil {
		return false, err
	}
	defer o.Close()
	info, err := o.Stat()
	if err != nil {
		return false, err
	}
	return errors.Is(o.SetTimes(info.Atime, info.Mtime, info.Btime), fs.ErrNotExist) ||
		errors.Is(o.Chown(info.UID, info.GID), fs.ErrNotExist), nil
}

// answer is a property that is determined when it is first needed.
type answer struct {
	mu struct {
		sync.Mutex
		known, yes bool
	}
}

// get returns the known answer. If there is none, it calls ask and remembers the answer unless
// there is an error.
func (a *answer) get(ask func() (bool, error)) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.known {
		return a.mu.yes, nil
	}
	yes, err := ask()
	a.mu.known, a.mu.yes = err == nil, yes
	return yes && err == nil, err
}
