package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// Options say what to copy, where to, and how.
type Options struct {
	Source  string   // a directory or a regular file
	Targets []string // at least one destination

	Hashes []hash.Algorithm // empty: copy without hashing or manifest
	MHL    *MHL             // write ASC MHL histories; nil for manifests alone
	// MediaList makes the run write media hash lists of version 1; not with MHL.
	MediaList *MediaList
	Manifest  string // "" for the usual name in each destination; otherwise a path, relative to each destination, or absolute

	Bag *BagOptions // each destination becomes a bag; nil for plain directories

	Policy    Policy
	BackupDir string // keeps replaced files, relative to each destination; "" if they are not kept

	Sync     SyncMode
	Sparse   SparseMode
	Reflink  ReflinkMode
	Preserve Preserve

	Verify         VerifyMode         // needs a hash
	SourceManifest SourceManifestMode // how the source's own manifests are checked

	Filter        *filter.List // nil for everything
	Only          *filter.Only // nil for everything
	OneFileSystem bool

	BlockSize int   // bytes of a buffer, at least MinBlockSize; 0 for DefaultBlockSize
	QueueSize int   // blocks that may wait between two stages of one file; 0 for DefaultQueueSize
	Workers   int   // files in flight; 0 for a number that suits the machine
	Memory    int64 // bytes of all buffers together; 0 for a number that suits the other three

	BytesPerSecond int64 // limit over all workers; 0 for none

	DirtyWindow int64 // bytes that may be unwritten per destination device, or one of the two below
	Cache       pipe.CacheMode

	DryRun   bool
	FailFast bool

	FS *fsys.FS // nil for the system's own; tests give others

	// What tests of this package exchange; zero values are what else is.
	rotational         func(*fsys.Dir) bool // not every disk that they find spins
	inMemory           func(*fsys.Dir) bool // where their files are is not up to them
	checkEvery         time.Duration        // the time between two checks whether a checkpoint is due
	pendingLinksMemory int                  // bytes

	// Report receives everything worth telling while it happens, from one
	// goroutine at a time. It must not block for long. May be nil.
	Report func(Event)

	// Each receives every entry of the source with its outcomes, in any order, from the
	// goroutine that calls Report. The entry is the caller's only until Each returns. May
	// be nil.
	Each func(*Entry)
}

// Defaults for Options.
const (
	DefaultBlockSize = pipe.DefaultBlockSize
	MinBlockSize     = 4 << 10 // bytes; less is all overhead
	DefaultQueueSize = pipe.DefaultQueueSize
)

// Special values of Options.DirtyWindow.
const (
	DirtyWindowAuto int64 = 0  // two seconds of the device's measured speed
	DirtyWindowOff  int64 = -1 // as much as the system likes
)

// Policy says what happens to a name that exists at the destination.
type Policy uint8

// The overwrite policies.
const (
	PolicyDefault  Policy = iota // replace what is older, leave conflicts alone
	PolicyNever                  // touch nothing that exists
	PolicyProtect                // as PolicyDefault, but replace no content
	PolicyAlways                 // replace everything
	PolicyUpdate                 // replace what differs in size or modification time
	PolicyChecksum               // replace what differs in content
)

// Policies are the values of --overwrite-policy.
var Policies = choice.Table[Policy]{What: "overwrite policy", Names: []string{
	PolicyDefault:  "default",
	PolicyNever:    "never",
	PolicyProtect:  "protect",
	PolicyAlways:   "always",
	PolicyUpdate:   "update",
	PolicyChecksum: "checksum",
}}

func (p Policy) String() string { return Policies.Name(p) }

// SyncMode says when data is forced to the device.
type SyncMode uint8

// The sync modes.
const (
	SyncEnd  SyncMode = iota // once, before the manifest gets its name
	SyncFile                 // each file before its name appears
	SyncNone                 // never
)

// SyncModes are the values of --sync.
var SyncModes = choice.Table[SyncMode]{What: "sync mode", Names: []string{SyncEnd: "end", SyncFile: "file", SyncNone: "none"}}

func (m SyncMode) String() string { return SyncModes.Name(m) }

// SparseMode says what becomes of holes.
type SparseMode uint8

// The sparse modes.
const (
	SparseAuto   SparseMode = iota // keep the source's holes
	SparseAlways                   // make holes of zero blocks
	SparseNever                    // write every byte
)

// SparseModes are the values of --sparse.
var SparseModes = choice.Table[SparseMode]{What: "sparse mode", Names: []string{SparseAuto: "auto", SparseAlways: "always", SparseNever: "never"}}

func (m SparseMode) String() string { return SparseModes.Name(m) }

// ReflinkMode says whether files may share blocks with the source.
type ReflinkMode uint8

// The reflink modes.
const (
	ReflinkAuto   ReflinkMode = iota // where the file system can
	ReflinkAlways                    // or else the file fails
	ReflinkNever                     // every copy has blocks of its own
)

// ReflinkModes are the values of --reflink.
var ReflinkModes = choice.Table[ReflinkMode]{What: "reflink mode", Names: []string{ReflinkAuto: "auto", ReflinkAlways: "always", ReflinkNever: "never"}}

func (m ReflinkMode) String() string { return ReflinkModes.Name(m) }

// VerifyMode says what is read back when everything is on the device.
type VerifyMode uint8

// The verify modes.
const (
	VerifyOff  VerifyMode = iota
	VerifyDest            // every file at each destination
	VerifyFull            // those, and the source
)

// VerifyModes are the values of --verify.
var VerifyModes = choice.Table[VerifyMode]{What: "verify mode", Names: []string{VerifyOff: "off", VerifyDest: "dest", VerifyFull: "full"}}

func (m VerifyMode) String() string { return VerifyModes.Name(m) }

// SourceManifestMode says what becomes of a manifest that the source holds.
type SourceManifestMode uint8

// The modes for the source's manifest.
const (
	SourceManifestCheck  SourceManifestMode = iota // what it lists must match; what is absent is a warning
	SourceManifestStrict                           // what is absent counts as a mismatch
	SourceManifestIgnore
)

// SourceManifestModes are the values of --source-manifest.
var SourceManifestModes = choice.Table[SourceManifestMode]{What: "way with the source's manifest", Names: []string{SourceManifestCheck: "check", SourceManifestStrict: "strict", SourceManifestIgnore: "ignore"}}

func (m SourceManifestMode) String() string { return SourceManifestModes.Name(m) }

// Preserve is the set of metadata to keep.
type Preserve uint8

// The kinds of metadata.
const (
	PreserveMode Preserve = 1 << iota
	PreserveTimes
	PreserveOwner // acts only when privileged
	PreserveLinks
	PreserveXattr
	PreserveACL

	PreserveNone Preserve = 0
	PreserveAll           = PreserveMode | PreserveTimes | PreserveOwner | PreserveLinks | PreserveXattr | PreserveACL
)

// preserveKinds has the name of bit i of a Preserve at index i.
var preserveKinds = choice.Table[Preserve]{What: "kind of metadata", Names: []string{"mode", "times", "owner", "links", "xattr", "acl"}}

// PreserveNames lists what --preserve takes, beside all and none.
func PreserveNames() []string { return preserveKinds.List() }

// ParsePreserve reads the value of --preserve: "all", "none" or a
// comma-separated list.
func ParsePreserve(s string) (Preserve, error) {
	switch s {
	case "all":
		return PreserveAll, nil
	case "none":
		return PreserveNone, nil
	}
	var set Preserve
	for name := range strings.SplitSeq(s, ",") {
		if name == "all" || name == "none" {
			return 0, fmt.Errorf("%s cannot be combined with other kinds of metadata", name)
		}
		bit, err := preserveKinds.Parse(strings.TrimSpace(name))
		if err != nil {
			return 0, err
		}
		set |= 1 << bit
	}
	return set, nil
}
