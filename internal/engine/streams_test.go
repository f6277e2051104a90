package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// A kind of metadata that no copy keeps, such as alternate data streams, is reported once, and
// its files are copied. The destination's files are not examined for it.
func TestStreamsAreReportedOncePerKind(t *testing.T) {
	t.Parallel()
	src, dst := sourceAndDestination(t)
	for i := range 20 {
		write(t, src, fmt.Sprint(i), []byte("x"), since)
	}
	asked := 0
	o := options(src, dst)
	o.Workers = 1
	for run := range 2 { // the second run reads the destination's attributes, too
		sys := faultfs.New(func(op fsys.Op, _ string) error {
			if op == fsys.OpGetXattr {
				asked++
				return &fsys.NotKeptError{What: []string{"streams", "encryption"}[asked%2]}
			}
			return nil
		})
		o.FS = sys
		out := watched(t, o)
		require.Zero(t, out.summary.Errors, "%v", out.bad())
		reports := map[string]int{}
		for _, e := range out.bad() {
			require.Equal(t, event.Warning, e.Kind)
			reports[e.Err.Error()]++
		}
		if run == 0 {
			require.Greater(t, asked, 20, "of every file")
			require.Len(t, reports, 2)
		}
		for text, times := range reports {
			require.Regexp(t, "^its (streams|encryption), and perhaps the same of others, cannot be kept", text)
			require.Equal(t, 1, times)
		}
	}
}
