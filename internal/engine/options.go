package engine

import (
	"cmp"
	"time"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/links"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// Options describe a copy: its source, its destinations, and the settings of the command line.
type Options struct {
	Source  string   // path of a directory or a regular file
	Targets []string // paths of the destinations, at least one

	Records
	Selection
	Policy    policy.Policy
	BackupDir string // keeps replaced files there, relative to each destination; "" to keep none

	Sync     dest.SyncMode
	Sparse   SparseMode
	Reflink  ReflinkMode
	Preserve metadata.Preserve

	Verify         VerifyMode         // needs a hash
	SourceManifest SourceManifestMode // the check of the source against its own manifests

	Resources
	DryRun         bool
	AllowUnmounted bool // copy also where a volume is mounted usually, and none is
	FailFast       bool

	FS *fsys.FS // nil for the real file system; tests inject others
	forTests

	// Report receives each event as it happens. Calls do not overlap. Report must return soon,
	// because the collector waits for it. It may be nil.
	Report func(event.Event)

	// Each receives every entry of the source with its outcomes, in any order. Its calls do
	// not overlap with each other or with those of Report. It must not keep the *event.Entry after
	// it returns. It may be nil.
	Each func(*event.Entry)
}

// Selection are the parts of the source that are copied.
type Selection struct {
	Filter        *filter.List // nil for everything
	Only          *filter.Only // nil for everything
	OneFileSystem bool
}

// Resources limit the memory, the workers and the speed of a copy. They do not change its result.
type Resources struct {
	BlockSize int   // bytes of a buffer, at least MinBlockSize; 0 for DefaultBlockSize
	QueueSize int   // blocks that may wait between two stages of one file; 0 for DefaultQueueSize
	Workers   int   // files in flight; 0 to choose by the machine
	Memory    int64 // bytes of all buffers together; 0 to choose by the three sizes above

	BytesPerSecond int64 // limit over all workers; 0 for none

	DirtyWindow int64 // bytes of unwritten data per destination device, or DirtyWindowAuto or DirtyWindowOff
	Cache       pipe.CacheMode
}

// forTests has what the tests of this package replace. The zero value of each field means the default.
type forTests struct {
	inMemory         func(*fsys.Dir) bool // reports whether a directory is in memory
	sharesSyncErrors func(*fsys.Dir) bool // see fsys.Dir.SharesSyncErrors
	checkEvery       time.Duration        // interval of the checks whether a checkpoint is due
	scanAfter        time.Duration        // delay of the scan that counts the totals
	linkedMemory     int                  // bytes
	numbersChange    bool                 // the inode numbers of directories do not stay
}

// Defaults for Options.
const (
	DefaultBlockSize = pipe.DefaultBlockSize
	MinBlockSize     = 4 << 10 // bytes; with smaller blocks, system calls dominate
	DefaultQueueSize = pipe.DefaultQueueSize
)

// checkEvery is the default interval of the checks whether a checkpoint is due.
const checkEvery = 50 * time.Millisecond

// Special values of Options.DirtyWindow.
const (
	DirtyWindowAuto int64 = 0  // two seconds of the device's measured speed
	DirtyWindowOff  int64 = -1 // the kernel's own limit
)

// SparseMode says whether copies have holes.
type SparseMode uint8

// The sparse modes.
const (
	SparseAuto   SparseMode = iota // Make holes where the source has them.
	SparseAlways                   // Make holes also of blocks of zeros.
	SparseNever                    // Make no holes: every byte is written.
)

// SparseModes are the values of --sparse.
var SparseModes = choice.Table[SparseMode]{What: "sparse mode", Names: []string{SparseAuto: "auto", SparseAlways: "always", SparseNever: "never"}}

func (m SparseMode) String() string { return SparseModes.Name(m) }

// ReflinkMode says whether copies share extents with the source.
type ReflinkMode uint8

// The reflink modes.
const (
	ReflinkAuto   ReflinkMode = iota // Share extents if the file system supports it.
	ReflinkAlways                    // Files that cannot share extents fail.
	ReflinkNever                     // Each copy has its own extents.
)

// ReflinkModes are the values of --reflink.
var ReflinkModes = choice.Table[ReflinkMode]{What: "reflink mode", Names: []string{ReflinkAuto: "auto", ReflinkAlways: "always", ReflinkNever: "never"}}

func (m ReflinkMode) String() string { return ReflinkModes.Name(m) }

// VerifyMode says which files are read again when everything is durable.
type VerifyMode uint8

// The verify modes.
const (
	VerifyOff  VerifyMode = iota
	VerifyDest            // Read every file at each destination.
	VerifyFull            // Read these files, and the source.
)

// VerifyModes are the values of --verify.
var VerifyModes = choice.Table[VerifyMode]{What: "verify mode", Names: []string{VerifyOff: "off", VerifyDest: "dest", VerifyFull: "full"}}

func (m VerifyMode) String() string { return VerifyModes.Name(m) }

// SourceManifestMode says how the manifests in the source are used.
type SourceManifestMode uint8

// The modes for manifests in the source.
const (
	SourceManifestCheck   SourceManifestMode = iota // Listed files must exist and match.
	SourceManifestPresent                           // Existing files must match; absent ones are a warning.
	SourceManifestIgnore
)

// SourceManifestModes are the values of --source-manifest.
var SourceManifestModes = choice.Table[SourceManifestMode]{What: "source manifest mode", Names: []string{SourceManifestCheck: "check", SourceManifestPresent: "present", SourceManifestIgnore: "ignore"}}

func (m SourceManifestMode) String() string { return SourceManifestModes.Name(m) }

// withDefaults returns a copy of the options in which zero values are replaced by their defaults.
func (o *Options) withDefaults() *Options {
	full := *o
	full.BlockSize = max(cmp.Or(full.BlockSize, DefaultBlockSize), MinBlockSize)
	full.QueueSize = cmp.Or(full.QueueSize, DefaultQueueSize)
	full.Workers = cmp.Or(full.Workers, pipe.DefaultWorkers())
	if full.Memory == 0 {
		// Each worker needs a full queue, one block to read into and one block that is being written.
		full.Memory = int64(full.Workers) * int64(full.QueueSize+2) * int64(full.BlockSize)
	}
	if full.inMemory == nil {
		full.inMemory = (*fsys.Dir).InMemory
	}
	if full.sharesSyncErrors == nil {
		full.sharesSyncErrors = (*fsys.Dir).SharesSyncErrors
	}
	full.checkEvery = cmp.Or(full.checkEvery, checkEvery)
	full.scanAfter = cmp.Or(full.scanAfter, scanAfter)
	full.linkedMemory = cmp.Or(full.linkedMemory, links.DefaultMemory)
	return &full
}
