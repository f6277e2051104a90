package cli

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
)

// Each verdict of a copy has the next step that helps for its cause, and the marker has the same.
func TestScreensOfVerdicts(t *testing.T) {
	failsWith := func(err error) func(fsys.Call) error { return func(fsys.Call) error { return err } }
	onDisk := func(err error) faultfs.Injector {
		file := func(c fsys.Call) bool { return !strings.Contains(c.Path, "journal") }
		return onPath(fsys.OpWrite, "disk", faultfs.When(file, failsWith(err)))
	}
	var all strings.Builder
	for _, c := range []struct {
		title, args string
		prepare     func()
		fault       faultfs.Injector
	}{
		{"complete", "card disk", nil, nil},
		{"no space", "card disk", nil, onDisk(syscall.ENOSPC)},
		{"a disk that was pulled", "card disk", nil, onDisk(syscall.ENODEV)},
		{"a source that does not match its manifest", "card disk", func() {
			require.NoError(t, os.WriteFile("card/SHA256SUMS", []byte(strings.Repeat("0", 64)+"  a\n"), 0o600))
		}, nil},
		{"a source that is incomplete", "card disk", func() {
			require.NoError(t, os.WriteFile("card/SEALIFT-INCOMPLETE-x.txt", nil, 0o600))
		}, nil},
		{"a file that may not be read", "card disk", nil, onPath(fsys.OpOpen, "card/a", failsWith(syscall.EACCES))},
		{"a file that cannot be read", "card disk", nil, onPath(fsys.OpRead, "card/a", failsWith(syscall.EIO))},
		{"conflicts", "--overwrite-policy protect card disk", func() {
			require.NoError(t, os.Mkdir("disk", 0o700))
			require.NoError(t, os.WriteFile("disk/a", []byte("another"), 0o600))
		}, nil},
		{"a dry run", "-n card disk", nil, nil},
	} {
		dir := t.TempDir()
		t.Chdir(dir)
		require.NoError(t, os.Mkdir("card", 0o700))
		for _, name := range []string{"a", "b"} {
			require.NoError(t, os.WriteFile(filepath.Join("card", name), []byte(name), 0o600))
		}
		if c.prepare != nil {
			c.prepare()
		}
		for _, name := range []string{"card/a", "disk/a"} { // the time would decide a conflict
			if err := os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)); err != nil {
				require.ErrorIs(t, err, fs.ErrNotExist)
			}
		}
		run := func(ctx context.Context, o *engine.Options, n *counters.Set) (*engine.Summary, error) {
			o.FS = &fsys.FS{Fault: c.fault}
			return engine.Run(ctx, o, n)
		}
		r := command(t, run, "", append([]string{"copy", "--progress", "none", "--workers", "1"}, strings.Fields(c.args)...)...)
		all.WriteString("# " + c.title + "\n" + r.stderr + r.stdout)
		if marker, err := os.ReadFile("disk/SEALIFT-INCOMPLETE-card.txt"); err == nil {
			_, advice, _ := strings.Cut(string(marker), "not here.\n\n")
			advice, _, _ = strings.Cut(advice, "\n\n")
			all.WriteString("(marker) " + strings.ReplaceAll(advice, dir, "DIR") + "\n")
		}
		all.WriteString("\n")
	}
	compareScreen(t, "verdicts", all.String())
}
