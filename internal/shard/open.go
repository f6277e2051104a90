package shard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

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
	text, err := readPrivate(dir, planName, maxPlanSize+1)
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

// checkIndex returns an error if the plan has no shard with this index.
func (s *Store) checkIndex(index int) error {
	if index < 0 || index >= len(s.Plan.Shards) {
		return fmt.Errorf("there is no shard %d; the plan has %d, counted from 0", index, len(s.Plan.Shards))
	}
	return nil
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
