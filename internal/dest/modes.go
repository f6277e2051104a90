package dest

import "github.com/seed65876f4f/sealift/internal/choice"

// SyncMode says when data is flushed to the device.
type SyncMode uint8

// The sync modes.
const (
	SyncEnd  SyncMode = iota // Sync once, before the manifest gets its name.
	SyncFile                 // Sync each file before it gets its name.
	SyncNone                 // Do not sync.
)

// SyncModes are the values of --sync.
var SyncModes = choice.Table[SyncMode]{What: "sync mode", Names: []string{SyncEnd: "end", SyncFile: "file", SyncNone: "none"}}

func (m SyncMode) String() string { return SyncModes.Name(m) }
