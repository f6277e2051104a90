package shard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// ErrNoPlan says that a directory does not contain a complete plan.
var ErrNoPlan = errors.New("it contains no plan; was sealift plan interrupted?")

// ErrNotPrivate says that another user could have changed the plan. Run and merge write where
// the plan says, with the rights of the user who runs them.
var ErrNotPrivate = errors.New("another user owns it or may write to it; a plan is used only by the user who made it")

// Store is the directory of a plan.
type Store struct {
	Plan *Plan
	dir  *fsys.Dir
}

// Open reads and checks the plan in dir. The store uses dir and does not take it over.
func Open(dir *fsys.Dir) (*Store, error) {
	info, err := dir.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Private() {
		return nil, ErrNotPrivate
	}
	text, err := readPrivate(dir, planName, maxPlanSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoPlan
	}
	var plan *Plan
	if err == nil {
		plan, err = parsePlan(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", planName, err)
	}
	return &Store{plan, dir}, nil
}

// openPrivate opens a regular file that no other user may change. It follows no link.
func openPrivate(dir *fsys.Dir, name string) (*fsys.File, error) {
	file, info, err := dir.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	if !info.Private() {
		file.Close()
		return nil, ErrNotPrivate
	}
	return file, nil
}

// readPrivate reads at most limit bytes of a file that no other user may change.
func readPrivate(dir *fsys.Dir, name string, limit int64) ([]byte, error) {
	file, err := openPrivate(dir, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file.Reader(limit))
}

// openDir opens a subdirectory of the plan that no other user may change.
func openDir(dir *fsys.Dir, name string) (*fsys.Dir, error) {
	sub, err := dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	info, err := sub.Stat()
	if err == nil && !info.Private() {
		err = ErrNotPrivate
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// openWork opens the directory with the attempts at a shard.
func (s *Store) openWork(index int) (*fsys.Dir, error) {
	work, err := openDir(s.dir, workName)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	return openDir(work, shardName(index))
}

// End is how a plan has ended. It has ended for ever.
type End struct {
	Abandoned bool   `json:"abandoned"` // otherwise it is merged: all manifests are written, and nothing has failed
	Conflicts int64  `json:"conflicts"` // number of conflicts that the merge has counted
	Made      []bool `json:"made"`      // one for each destination: whether the plan has made its directory
}

// End returns how the plan has ended, or nil. If a destination still has the mark of a merged plan,
// and Closed returns false, the caller has to remove the mark.
func (s *Store) End() (*End, error) {
	text, err := readPrivate(s.dir, endName, smallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nil is the answer: it has not ended
	}
	e := &End{}
	if err == nil {
		err = json.Unmarshal(text, e)
	}
	return e, err
}

// ErrMerged and ErrAbandoned say how a plan has ended.
var (
	ErrMerged    = errors.New("the plan was merged; to copy what is new, make another plan or use sealift copy")
	ErrAbandoned = errors.New("the plan was abandoned; to copy the rest, make another plan or use sealift copy")
)

// Ended returns ErrMerged or ErrAbandoned if the plan has ended.
func (s *Store) Ended() error {
	switch end, err := s.End(); {
	case err != nil:
		return fmt.Errorf("the plan cannot be read: %w", err)
	case end == nil:
		return nil
	case end.Abandoned:
		return ErrAbandoned
	}
	return ErrMerged
}

// SetEnd records, durably, that the plan has ended. The first record stays.
func (s *Store) SetEnd(e End) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	err = writeFile(s.dir, endName, string(text)+"\n", (*fsys.Pending).Commit)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Closed reports whether the destinations of a merged plan are open to other copies.
func (s *Store) Closed() (bool, error) { return exists(s.dir, closedName) }

// SetClosed records that no destination has the mark of the merged plan any more.
func (s *Store) SetClosed() error {
	return writeFile(s.dir, closedName, "", (*fsys.Pending).CommitReplacing)
}

// OwnsTemp reports whether the plan with this id has made the temporary of that name.
func OwnsTemp(planID, name string) bool {
	id, ok := fsys.TempID(name)
	return ok && strings.HasPrefix(id, planID[:planDigits])
}

// smallFile is the largest size of a record, in bytes.
const smallFile = 1 << 20

func exists(dir *fsys.Dir, name string) (bool, error) {
	_, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// writeFile writes a small file into a directory of the plan, atomically and durably. commit gives
// it its name.
func writeFile(dir *fsys.Dir, name, text string, commit func(*fsys.Pending, string) error) error {
	file, err := dir.Create(false)
	if err != nil {
		return err
	}
	defer file.Abort()
	err = file.WriteAt([]byte(text), 0)
	if err == nil {
		err = file.SyncToDrive()
	}
	if err == nil {
		err = commit(file, name)
	}
	if err == nil {
		err = dir.SyncToDrive()
	}
	return err
}
