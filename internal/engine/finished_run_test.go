//go:build linux

package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/resume"
)

// A copy from another source is not finished. A file that a complete run has listed since is
// not suspect because of it: an edit of it is a conflict, and not a partial file. When the
// manifest or the other journal changes, this is unknown again.
func TestFilesListedByACompleteRunAreNotSuspect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after func(t *testing.T, dst, log string)
		kept  bool
	}{
		"nothing has changed": {func(*testing.T, string, string) {}, true},
		"the other copy has gone on": {func(t *testing.T, _, log string) {
			f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString("x")
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}, false},
		"the manifest is another one": {func(t *testing.T, dst, _ string) {
			write(t, dst, "SHA256SUMS", []byte(sha("new")+"  f\n"+sha("x")+"  g\n"), since)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceAndDestination(t)
			write(t, src, "f", []byte("new"), since)
			log := filepath.Join(dst, resume.JournalName(""), resume.LogName("/another/source"))
			require.NoError(t, os.MkdirAll(filepath.Dir(log), 0o700))
			f, err := os.Create(log)
			require.NoError(t, err)
			w, err := journal.Create(f, journal.Header{
				ID: journal.NewID(), Begun: fsys.Time{Sec: time.Now().Unix() - 100}, Options: "hash=sha256", Source: "/another/source",
			})
			require.NoError(t, err)
			require.NoError(t, w.Flush())
			require.NoError(t, f.Close())

			runReported(t, options(src, dst))
			require.FileExists(t, filepath.Join(filepath.Dir(log), "settled"))
			write(t, dst, "f", []byte("mod"), since.Add(time.Hour)) // by a user
			c.after(t, dst, log)
			runReported(t, options(src, dst))
			have, err := os.ReadFile(filepath.Join(dst, "f"))
			require.NoError(t, err)
			require.Equal(t, map[bool]string{true: "mod", false: "new"}[c.kept], string(have))
		})
	}
}
