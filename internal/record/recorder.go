package record

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// Recorder is one kind of record that a run writes. NoRecorder has methods for a record that does
// not need them.
type Recorder interface {
	// Refuse is called before any destination is opened. It writes nothing. The error is a
	// *failure.RefusedError if the record cannot list the source, and may be another one if the source
	// or a destination cannot be read.
	Refuse(*Run) error
	// Inspect is called before a destination is opened. The error is a *failure.RefusedError if the record
	// cannot be written there.
	Inspect(Place) error
	// Last returns the name of a file in the root of the source that gets its name at a destination last,
	// when everything else is there and durable; "" for none.
	Last() string
	// Unlisted reports whether the files of a directory of the source get no lines. parent is the
	// directory above it.
	Unlisted(name string, parent Opener) bool
	// Holds reports whether the record itself copies an entry of the source, so the run does not.
	Holds(name string, path func() string) bool
	// Open opens the record at one destination. It writes nothing. The error is a
	// *failure.RefusedError if the record cannot be written there.
	Open(*Destination) (Book, error)
	// Empty is called for each empty directory of the source. One goroutine at a time calls it.
	Empty(dir string)
	// Walked is called after the outcomes of all entries were recorded. The error is a warning.
	Walked() error
	// Close closes what Refuse has opened. It may be called again.
	Close()
}

// NoRecorder is a recorder of nothing.
type NoRecorder struct{}

// Refuse implements Recorder.
func (NoRecorder) Refuse(*Run) error { return nil }

// Holds implements Recorder.
func (NoRecorder) Holds(string, func() string) bool { return false }

// Inspect implements Recorder.
func (NoRecorder) Inspect(Place) error { return nil }

// Last implements Recorder.
func (NoRecorder) Last() string { return "" }

// Unlisted implements Recorder.
func (NoRecorder) Unlisted(string, Opener) bool { return false }

// Empty implements Recorder.
func (NoRecorder) Empty(string) {}

// Walked implements Recorder.
func (NoRecorder) Walked() error { return nil }

// Close implements Recorder.
func (NoRecorder) Close() {}

// Run is a run as recorders see it.
type Run struct {
	FS           *fsys.FS
	Source       string    // as the user gave it
	Root         *fsys.Dir // of the source
	File         string    // the name of the source's file; "" if the source is a directory
	Destinations []Place
	BackupDir    string // as the user gave it; "" for none
	// Hashes are those that the run computes. Refuse may replace them.
	Hashes []hash.Algorithm
	Begun  fsys.Time

	// OpenSource opens the source. The caller closes it.
	OpenSource func() (*fsys.Dir, error)
	// Wanted reports whether the filters include a path.
	Wanted func(path string) bool
	// Scan calls found for each entry that the run is going to copy, and enters a directory if found
	// returns true. Several goroutines call found. complete is false if the run was stopped.
	Scan func(found func(path string, kind fsys.Kind) (enter bool)) (complete bool, err error)
	// Unfinished returns how many unfinished copies have a log in the journal of a directory, and whether
	// one of them is a copy of this source. The error is fs.ErrNotExist if there is no journal.
	Unfinished func(*fsys.Dir) (logs int, ofSource bool, err error)
}

// Opener opens a directory of the source.
type Opener interface {
	Acquire() (*fsys.Dir, error)
	Release()
}

// Place is where a destination is.
type Place struct {
	Given  string // as the user gave it
	Dir    string // the absolute path
	Outer  string // of the directory above Dir that has the records of the copy; "" if that is Dir
	Exists bool
}
