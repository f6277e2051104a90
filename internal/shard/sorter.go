package shard

import (
	"errors"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

const (
	sortMemory = 32 << 20 // bytes that a sorter keeps in memory
	fileBuffer = 64 << 10 // bytes, for each file that is read or written
)

var errRecord = errors.New("the temporary file of the plan has a malformed record")

// newSorter returns a sorter whose temporary file is in dir.
func newSorter(dir *fsys.Dir, memory int) *extsort.Sorter {
	return extsort.New(func() (extsort.Spill, error) {
		file, err := dir.Create(false)
		if err != nil {
			return nil, err
		}
		return &fsys.Spill{Pending: file}, nil
	}, memory)
}
