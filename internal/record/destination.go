package record

import (
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// Destination is a destination as recorders see it.
type Destination struct {
	FS     *fsys.FS  // nil for the system's files
	Source *fsys.Dir // the root of the source
	Root   *fsys.Dir // nil in a dry run into a directory that does not exist
	Outer  *fsys.Dir // the directory above Root that has the records and markers of the copy; nil if that is Root
	Dir    string    // the absolute path of Root
	Given  string    // as the user gave it
	Shown  string    // Dir as the user would write it
	File   string    // the name at the destination of the single file that is copied; "" for a tree

	// Usual and Outside are the path of --manifest, relative to the destination or absolute, if it is
	// outside the destination. Both are "" for the default.
	Usual, Outside string

	Hashes    []hash.Algorithm // the digests of Outcome
	More      bool             // the run also computes other hashes, which are not recorded
	Durable   bool             // records are synced
	KeepTimes bool             // directories below the destination keep their times
	ReadsBack bool             // the run calls Books.Lines, for all files that it lists
	Memory    int              // bytes of memory for the files of the run; 0 for the default
	Spill     func() (extsort.Spill, error)
	Report    func(event.Event)

	// Asides are the manifests that an unfinished run has renamed, by their paths; nil for none.
	Asides      map[string]string
	Journal     Journal     // nil in a dry run
	Interrupted Interrupted // nil if no run was interrupted; set after Open

	Files  *Files   // of the run; nil without hashes. Set by Open
	Shared bool     // all files are needed in Files; set by Open
	Names  []string // the paths of the manifests that the run writes below Root
}

// Journal records which manifests are renamed during a run.
type Journal interface {
	// RecordAside records, before the renaming, that the manifest of a path is named name.
	RecordAside(file, name string, durable bool) error
	// ForgetAside removes that record.
	ForgetAside(file string) error
}

// Interrupted reports which files unfinished runs may have changed at the destination.
type Interrupted interface {
	// Touched reports whether an unfinished run may have changed the file that info
	// describes. It also returns the digests that the file should then have; nil if they
	// are not known.
	Touched(path string, info fsys.Info) (digests hash.Digests, touched bool)
}
