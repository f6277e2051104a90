package pipe

import "github.com/seed65876f4f/sealift/internal/choice"

// CacheMode says how a command uses the page cache.
type CacheMode uint8

// The cache modes. Verifying has no CacheKeep: its CacheAuto never drops a file.
const (
	CacheAuto   CacheMode = iota // Use CacheDrop for a copy of more than half of the memory, otherwise CacheKeep.
	CacheKeep                    // Use the system default.
	CacheDrop                    // Drop data that a copy brought in, and a verified file before and after reading.
	CacheDirect                  // Bypass the cache (O_DIRECT) if file system and device support that.
)

// CacheModes are the values of --cache.
var CacheModes = choice.Table[CacheMode]{What: "cache mode", Names: []string{
	CacheAuto:   "auto",
	CacheKeep:   "keep",
	CacheDrop:   "drop",
	CacheDirect: "direct",
}}

func (m CacheMode) String() string { return CacheModes.Name(m) }
