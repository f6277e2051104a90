package shard

import (
	"encoding/json"
	"errors"
	"io/fs"
)

// Files in the directory of a plan. All but mergedName are empty.
const (
	mergingName = "merging" // a merge has begun
	mergedName  = "merged"  // all manifests are written, and nothing has failed
	closedName  = "closed"  // also, no destination has the mark of the plan any more

	abandonedName = "abandoned" // no task may begin any more
)

// IsMerging reports whether a merge of the plan has begun.
func (s *Store) IsMerging() (bool, error) { return s.isMarked(mergingName) }

// SetMerging records, durably, that a merge of the plan has begun.
func (s *Store) SetMerging() error { return s.mark(mergingName) }

// Merged is the result of a merge without failures and mismatches.
type Merged struct {
	Conflicts int64 `json:"conflicts"`
}

// maxMerged is the largest size, in bytes, of the file mergedName.
const maxMerged = 1 << 10

// ReadMerged returns the result of the merge, or nil if the plan is not merged. If a destination
// still has the mark of the plan, the caller must remove the mark, so that other copies can use the
// destination.
func (s *Store) ReadMerged() (*Merged, error) {
	text, err := readPrivate(s.dir, mergedName, maxMerged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nil is the answer: not merged
	}
	m := &Merged{}
	if err != nil || len(text) == 0 { // earlier versions wrote an empty file
		return m, err
	}
	err = json.Unmarshal(text, m)
	if err == nil && m.Conflicts < 0 {
		err = errors.New("a number of conflicts is negative")
	}
	return m, err
}

// SetMerged records, durably, that the plan is merged, and with which result.
func (s *Store) SetMerged(m Merged) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeFile(s.dir, mergedName, string(text)+"\n")
}

// IsClosed reports whether the destinations of a merged plan are open to other copies.
func (s *Store) IsClosed() (bool, error) { return s.isMarked(closedName) }

// SetClosed records that no destination has the mark of the plan any more.
func (s *Store) SetClosed() error { return s.mark(closedName) }

// ErrAbandoned says that a plan was abandoned.
var ErrAbandoned = errors.New("the plan was abandoned; to copy the rest, make another plan or use sealift copy")

// CheckAbandoned returns ErrAbandoned if the plan was abandoned.
func (s *Store) CheckAbandoned() error {
	abandoned, err := s.isMarked(abandonedName)
	if err == nil && abandoned {
		err = ErrAbandoned
	}
	return err
}

// SetAbandoned records, durably, that no task of the plan may begin any more.
func (s *Store) SetAbandoned() error { return s.mark(abandonedName) }

// TakeBackAbandoned removes the record of SetAbandoned.
func (s *Store) TakeBackAbandoned() error {
	err := s.dir.Remove(abandonedName)
	if err == nil {
		err = s.dir.SyncToDrive()
	}
	return err
}

func (s *Store) isMarked(name string) (bool, error) {
	file, err := openPrivate(s.dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	file.Close()
	return true, nil
}

func (s *Store) mark(name string) error { return writeFile(s.dir, name, "") }

// TempIDs returns the ids in the names of the temporaries that the attempts have made.
func (s *Store) TempIDs(p Progress) map[string]bool {
	ids := map[string]bool{}
	for i, state := range p {
		for n := 1; n <= state.Attempts; n++ {
			ids[s.tempID(i, n)] = true
		}
	}
	return ids
}
