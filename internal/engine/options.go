package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// Options say what to copy, where to, and how.
type Options struct {
	Source  string   // a directory or a regular file
	Targets []string // at least one destination

	Hashes   []hash.Algorithm // empty: copy without hashing or manifest
	Manifest string           // "" for the usual name in each destination; see SPEC of --manifest in docs/design.md

	Policy   Policy
	Sync     SyncMode
	Sparse   SparseMode
	Reflink  ReflinkMode
	Preserve Preserve

	Verify         VerifyMode         // needs a hash
	SourceManifest SourceManifestMode // what becomes of a manifest that the source holds itself

	Filter        *filter.List // nil for everything
	Only          *filter.Only // nil for everything
	OneFileSystem bool

	BlockSize int   // bytes of a buffer, at least MinBlockSize; 0 for DefaultBlockSize
	QueueSize int   // blocks that may wait between two stages of one file; 0 for DefaultQueueSize
	Workers   int   // files in flight; 0 for a number that suits the machine
	Memory    int64 // bytes of all buffers together; 0 for a number that suits the other three

	BytesPerSecond int64 // limit over all workers; 0 for none

	DirtyWindow int64 // bytes that may be unwritten per destination device, or one of the two below
	Cache       CacheMode

	DryRun   bool
	FailFast bool

	FS *fsys.FS // nil for the system's own; tests give others

	// What tests of this package exchange; zero values are what else is.
	rotational         func(*fsys.Dir) bool // not every disk that they find spins
	inMemory           func(*fsys.Dir) bool // where their files are is not up to them
	tendEvery          time.Duration        // how often somebody looks whether a checkpoint is due
	pendingLinksMemory int                  // bytes

	// Report receives everything worth telling while it happens, from one
	// goroutine at a time. It must not block for long. May be nil.
	Report func(Event)
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

// CacheMode says what the copy leaves in the page cache.
type CacheMode uint8

// The cache modes.
const (
	CacheAuto   CacheMode = iota // as CacheKeep, but CacheDrop for a run larger than half of memory
	CacheKeep                    // as the system likes
	CacheDrop                    // nothing that was not there before
	CacheDirect                  // it is bypassed, where the file systems can
)

var cacheNames = []string{"auto", "keep", "drop", "direct"}

func (m CacheMode) String() string { return cacheNames[m] }

// CacheNames lists the values of copy's --cache.
func CacheNames() []string { return cacheNames }

// ParseCache reads the value of copy's --cache.
func ParseCache(s string) (CacheMode, error) {
	i, err := choose("cache mode", s, cacheNames)
	return CacheMode(i), err
}

// Policy says what happens to a name that exists at the destination.
type Policy uint8

// The overwrite policies.
const (
	PolicyDefault  Policy = iota // replace what is older, leave conflicts alone
	PolicyNever                  // touch nothing that exists
	PolicyAlways                 // replace everything
	PolicyUpdate                 // replace what differs in size or modification time
	PolicyChecksum               // replace what differs in content
)

var policyNames = []string{"default", "never", "always", "update", "checksum"}

func (p Policy) String() string { return policyNames[p] }

// PolicyNames lists the values of --overwrite-policy.
func PolicyNames() []string { return policyNames }

// ParsePolicy reads the value of --overwrite-policy.
func ParsePolicy(s string) (Policy, error) {
	i, err := choose("overwrite policy", s, policyNames)
	return Policy(i), err
}

// SyncMode says when data is forced to the device.
type SyncMode uint8

// The sync modes.
const (
	SyncEnd  SyncMode = iota // once, before the manifest gets its name
	SyncFile                 // each file before its name appears
	SyncNone                 // never
)

var syncNames = []string{"end", "file", "none"}

func (m SyncMode) String() string { return syncNames[m] }

// SyncNames lists the values of --sync.
func SyncNames() []string { return syncNames }

// ParseSync reads the value of --sync.
func ParseSync(s string) (SyncMode, error) {
	i, err := choose("sync mode", s, syncNames)
	return SyncMode(i), err
}

// SparseMode says what becomes of holes.
type SparseMode uint8

// The sparse modes.
const (
	SparseAuto   SparseMode = iota // keep the source's holes
	SparseAlways                   // make holes of zero blocks
	SparseNever                    // write every byte
)

var sparseNames = []string{"auto", "always", "never"}

func (m SparseMode) String() string { return sparseNames[m] }

// SparseNames lists the values of --sparse.
func SparseNames() []string { return sparseNames }

// ParseSparse reads the value of --sparse.
func ParseSparse(s string) (SparseMode, error) {
	i, err := choose("sparse mode", s, sparseNames)
	return SparseMode(i), err
}

// ReflinkMode says whether files may share blocks with the source.
type ReflinkMode uint8

// The reflink modes.
const (
	ReflinkAuto   ReflinkMode = iota // where the file system can
	ReflinkAlways                    // or else the file fails
	ReflinkNever                     // every copy has blocks of its own
)

var reflinkNames = []string{"auto", "always", "never"}

func (m ReflinkMode) String() string { return reflinkNames[m] }

// ReflinkNames lists the values of --reflink.
func ReflinkNames() []string { return reflinkNames }

// ParseReflink reads the value of --reflink.
func ParseReflink(s string) (ReflinkMode, error) {
	i, err := choose("reflink mode", s, reflinkNames)
	return ReflinkMode(i), err
}

// VerifyMode says what is read back when everything is on the device.
type VerifyMode uint8

// The verify modes.
const (
	VerifyOff  VerifyMode = iota
	VerifyDest            // every file at each destination
	VerifyFull            // those, and the source
)

var verifyNames = []string{"off", "dest", "full"}

func (m VerifyMode) String() string { return verifyNames[m] }

// VerifyNames lists the values of --verify.
func VerifyNames() []string { return verifyNames }

// ParseVerify reads the value of --verify.
func ParseVerify(s string) (VerifyMode, error) {
	i, err := choose("verify mode", s, verifyNames)
	return VerifyMode(i), err
}

// SourceManifestMode says what becomes of a manifest that the source holds.
type SourceManifestMode uint8

// The modes for the source's manifest.
const (
	SourceManifestCheck  SourceManifestMode = iota // what it lists must match; what is absent is a warning
	SourceManifestStrict                           // what is absent counts as a mismatch
	SourceManifestIgnore
)

var sourceManifestNames = []string{"check", "strict", "ignore"}

func (m SourceManifestMode) String() string { return sourceManifestNames[m] }

// SourceManifestNames lists the values of --source-manifest.
func SourceManifestNames() []string { return sourceManifestNames }

// ParseSourceManifest reads the value of --source-manifest.
func ParseSourceManifest(s string) (SourceManifestMode, error) {
	i, err := choose("way with the source's manifest", s, sourceManifestNames)
	return SourceManifestMode(i), err
}

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

var preserveNames = []string{"mode", "times", "owner", "links", "xattr", "acl"}

// PreserveNames lists what --preserve takes, beside all and none.
func PreserveNames() []string { return preserveNames }

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
		i, err := choose("kind of metadata", strings.TrimSpace(name), preserveNames)
		if err != nil {
			return 0, err
		}
		set |= 1 << i
	}
	return set, nil
}

func choose(what, s string, names []string) (int, error) {
	for i, name := range names {
		if s == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q; known are %s", what, s, strings.Join(names, ", "))
}
