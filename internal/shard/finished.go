package shard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Finished is the record of a finished shard.
type Finished struct {
	Plan    string `json:"plan"` // these three are set by Finish
	Shard   int    `json:"shard"`
	Attempt int    `json:"attempt"`

	// The numbers of entries that have this outcome at one destination or more.
	Failures   int64 `json:"failures"`
	Mismatches int64 `json:"mismatches"`
	Conflicts  int64 `json:"conflicts"`

	Parts []Part `json:"parts"`
}

// Part describes a file in the directory of the attempt.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

func (f *Finished) encode() ([]byte, error) {
	text, err := json.MarshalIndent(f, "", " ")
	return append(text, '\n'), err
}

// parseFinished reads the record of a shard strictly.
func (s *Store) parseFinished(text []byte, index int) (*Finished, error) {
	f := &Finished{}
	if err := decodeStrict(text, f, f.encode); err != nil {
		return nil, err
	}
	entries := s.Plan.Shards[index].Entries
	switch {
	case f.Plan != s.Plan.ID || f.Shard != index || f.Attempt < 1 || f.Attempt > maxAttempts:
		return nil, errors.New("it is not of this shard")
	case min(f.Failures, f.Mismatches, f.Conflicts) < 0 || max(f.Failures, f.Mismatches, f.Conflicts) > entries:
		return nil, errors.New("its counts are out of range")
	}
	for _, p := range f.Parts {
		if p.Size < 0 || !isHex(p.SHA256, 32) || !IsPath(p.Name) || strings.ContainsAny(p.Name, `/\`) {
			return nil, fmt.Errorf("it describes the part %.100q, which cannot be", p.Name)
		}
	}
	return f, nil
}

// finished returns the record of a shard, nil if it is not finished.
func (s *Store) finished(dir *fsys.Dir, index int) (*Finished, error) {
	return s.readFinished(dir, finishedName, index)
}

// readFinished reads the finish record called name; nil if it does not exist.
func (s *Store) readFinished(dir *fsys.Dir, name string, index int) (*Finished, error) {
	text, err := readPrivate(dir, name, smallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var record *Finished
	if err == nil {
		record, err = s.parseFinished(text, index)
	}
	if err != nil {
		return nil, fmt.Errorf("record of shard %d: %w", index, err)
	}
	return record, nil
}
