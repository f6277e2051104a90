package engine

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The bytes of rates grow by at most one block at a time, also where an existing file is
// compared with the source. Otherwise its size would show as a rate.
func TestComparedBytesAreCountedAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(content []byte)
		policy policy.Policy
		want   int64 // bytes that were read
	}{
		"equal":                        {func([]byte) {}, policy.Default, bigSize},
		"different, a conflict":        {func(b []byte) { b[sweepBlock] ^= 1 }, policy.Protect, sweepBlock + sweepBlock/2},
		"different at the end, copied": {func(b []byte) { b[len(b)-1] ^= 1 }, policy.Checksum, bigSize},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := sourceAndDestination(t)
			content := treetest.Pattern(bigSize, 1)
			write(t, src, "big", content, since)
			c.change(content)
			write(t, dst, "big", content, before)
			counts := &counters.Set{}
			var mu sync.Mutex
			var last, most int64
			look := func() {
				mu.Lock()
				defer mu.Unlock()
				unread := counts.Unread.Load() // first, as nothing may be taken for read
				now := counts.Bytes.Load() - unread
				last, most = now, max(most, now-last)
			}
			o := sweepOptions(src, []string{dst}, dest.SyncNone)
			o.Policy = c.policy
			o.FS = &fsys.FS{Fault: func(fsys.Call) error { look(); return nil }}
			runCounted(t, o, counts)
			look()
			require.LessOrEqual(t, most, int64(sweepBlock), "grows by a block at most")
			require.EqualValues(t, bigSize, counts.Bytes.Load())
			require.Equal(t, c.want, last)
		})
	}
}
