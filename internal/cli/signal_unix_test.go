//go:build unix

package cli

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func TestTheStatusSignalPrintsOneLine(t *testing.T) {
	for _, s := range statusSignals {
		asked := func(_ context.Context, _ *engine.Options, c *counters.Set) (*engine.Summary, error) {
			c.Bytes.Store(3e6)
			c.Files.Store(7)
			if err := syscall.Kill(os.Getpid(), s.(syscall.Signal)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
			return &engine.Summary{}, nil
		}
		checked := func(_ context.Context, _ *verify.Options, c *counters.Set) (*verify.Summary, error) {
			_, err := asked(t.Context(), nil, c)
			return &verify.Summary{}, err
		}
		if r := verifyCommand(t, checked, "", "--silent"); !strings.HasPrefix(r.stderr, "sealift: starting: 3.00 MB, ") {
			t.Errorf("%v: stderr %q", s, r.stderr)
		}
		r := command(t, asked, "", "copy", "-q", "a", "b")
		if want := "sealift: starting: 3.00 MB, 7 files, "; !strings.HasPrefix(r.stderr, want) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%v: stderr %q, want one line that begins with %q", s, r.stderr, want)
		}
	}
}
