package shard

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// ErrPlanned says that a directory contains a complete plan.
var ErrPlanned = errors.New("it contains a plan; give another directory, or remove it")

// ErrNotEmpty says that a directory contains entries that no planner made.
var ErrNotEmpty = errors.New("it is not empty")

// Inspect checks that a plan can be made in dir. The directory must be private. It must be empty,
// apart from files of an interrupted planner. Inspect returns the id of that planner, or "".
func Inspect(dir *fsys.Dir) (id string, err error) {
	info, err := dir.Stat()
	if err != nil {
		return "", err
	}
	if !info.Private() {
		return "", ErrNotPrivate
	}
	listing, err := dir.List()
	if err != nil {
		return "", err
	}
	for i := range listing.Len() {
		switch name := listing.Name(i); name {
		case planName:
			return "", ErrPlanned
		case shardsName, workName, dirsName, missingName, planningName, planLockName:
		default:
			if !fsys.IsTemp(name) {
				return "", ErrNotEmpty
			}
		}
	}
	return readID(dir)
}

// Lock keeps other planners out of dir. The lock is nil where the file system has none. The error
// is fsys.ErrLocked if another planner has it.
func Lock(dir *fsys.Dir) (*fsys.Lock, error) {
	lock, err := dir.Lock(planLockName)
	if err != nil && fsys.Unsupported(err) {
		return nil, nil
	}
	return lock, err
}

// prepare makes the directories of a plan. It removes temporaries that a planner which was
// killed has left.
func prepare(dir *fsys.Dir) error {
	if _, err := Inspect(dir); err != nil {
		return err
	}
	for _, name := range [...]string{shardsName, workName} {
		if err := dir.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	shards, err := dir.OpenDir(shardsName)
	if err != nil {
		return err
	}
	defer shards.Close()
	for _, d := range [...]*fsys.Dir{dir, shards} {
		if err := removeNames(d, fsys.IsTemp[string]); err != nil {
			return err
		}
	}
	return nil
}

// readID returns the id that an interrupted planner has left in dir; "" for none.
func readID(dir *fsys.Dir) (string, error) {
	text, err := readPrivate(dir, planningName, 64)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", planningName, err)
	}
	if id, line := strings.CutSuffix(string(text), "\n"); line && isHex(id, 16) {
		return id, nil
	}
	return "", nil
}

// claimID returns the id for the plan in dir. It uses the id of an interrupted planner if there is
// one. Otherwise it makes a new id and syncs it to the device.
func claimID(dir *fsys.Dir) (string, error) {
	if id, err := readID(dir); id != "" || err != nil {
		return id, err
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // it never returns an error
	id := hex.EncodeToString(random)
	return id, writeFile(dir, planningName, id+"\n")
}

// removeNames removes the names in dir for which is returns true.
func removeNames(dir *fsys.Dir, is func(name string) bool) error {
	listing, err := dir.List()
	if err != nil {
		return err
	}
	for i := range listing.Len() {
		name := listing.Name(i)
		if !is(name) {
			continue
		}
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
