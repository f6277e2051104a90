package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A plan may be damaged or hostile. A merge refuses its impossible numbers, which no page and no JSON
// can show.
func TestImpossibleResultsOfAShardAreRefused(t *testing.T) {
	begun := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	good := shardCounts{Files: 3, Bytes: 1000, ResumedFiles: 1, ResumedBytes: 5, Begun: begun, Elapsed: time.Minute}
	r, ok := good.result()
	require.True(t, ok)
	require.Equal(t, &ShardResult{Files: 3, Bytes: 1000, ResumedFiles: 1, ResumedBytes: 5, Begun: begun, Ended: begun.Add(time.Minute)}, r)
	for name, change := range map[string]func(*shardCounts){
		"files":         func(c *shardCounts) { c.Files = -1 },
		"bytes":         func(c *shardCounts) { c.Bytes = -1 },
		"resumed files": func(c *shardCounts) { c.ResumedFiles = -1 },
		"resumed bytes": func(c *shardCounts) { c.ResumedBytes = -1 },
		"time":          func(c *shardCounts) { c.Elapsed = -1 },
		"begin":         func(c *shardCounts) { c.Begun = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
		"end":           func(c *shardCounts) { c.Begun = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) },
	} {
		bad := good
		change(&bad)
		_, ok := bad.result()
		require.False(t, ok, name)
	}
}
