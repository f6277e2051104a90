//go:build linux

package stream

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Another process exchanges a name that the user has given, before each operation. An
// output that it has not touched has the content of the digest, the manifest lists nothing
// else, and nothing is removed.
func TestExchanged(t *testing.T) {
	dir := treetest.MemoryDir(t)
	t.Chdir(dir)
	content, other := treetest.Pattern(20_000, 1), treetest.Pattern(20_000, 2)
	runs := 0
	for i, victim := range []string{"in", "out", "new", "m"} {
		for kind, make := range map[string]func(){
			"file":      func() { write(t, "bait", other) },
			"link":      func() { write(t, "decoy", other); require.NoError(t, os.Symlink("decoy", "bait")) },
			"directory": func() { require.NoError(t, os.Mkdir("bait", 0o700)) },
		} {
			runs += treetest.Sweep(t, victim, "bait", false, i, 3, func(a *treetest.Attack) {
				for _, name := range []string{"bait", "decoy", "new", "m"} {
					require.NoError(t, os.RemoveAll(name))
				}
				make()
				write(t, "in", content)
				write(t, "out", treetest.Pattern(100, 3))
				write(t, "m", []byte(hex.EncodeToString(digest(nil))+"  old\n"))
				syncing, late := false, false // late: the exchange came when outputs were synced, and listed perhaps
				var mu sync.Mutex
				sys := faultfs.New(func(op fsys.Op, name string) error {
					mu.Lock()
					defer mu.Unlock()
					early := a.At == ""
					a.Before(t, string(op), name)
					late = late || early && a.At != "" && syncing
					syncing = syncing || op == fsys.OpSync
					return nil
				})
				o := streamIn(t.Context(), sys, "in", []string{"out", "new", "safe"}, func(o *Options) { o.Manifest, o.BlockSize = "m", 8192 })
				about := []any{"%s exchanged for a %s before operation %d, %s (brief: %t): %v\n%s", victim, kind, a.Nth, a.At, a.Brief, o.err, o.texts()}
				holds := func(name string) (list [][]byte) { // what is under the name, or was when it was listed
					names := []string{name}
					if late || !strings.HasPrefix(a.At, "read") && !strings.HasPrefix(a.At, "write") {
						names = append(names, "bait")
					}
					for _, name := range names {
						if b, err := os.ReadFile(name); err == nil {
							list = append(list, digest(b))
						}
					}
					return list
				}
				if kind != "directory" && victim != "m" { // it would have been opened, or else is as it was
					stands, err := os.ReadFile(map[string]string{"file": "bait", "link": "decoy"}[kind])
					require.NoError(t, err, about...)
					if victim == "in" {
						require.True(t, bytes.Equal(stands, other) || bytes.Equal(stands, content), about...)
					}
				}
				if o.err != nil {
					return
				}
				if o.summary.Complete {
					require.Equal(t, digest(read(t, "safe")), []byte(o.summary.Digests[0]), about...)
				}
				m, err := os.ReadFile("m")
				if err != nil || o.summary.Errors > 0 || bytes.Equal(m, other) {
					return
				}
				for line := range strings.Lines(string(m)) {
					sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
					if name != "old" {
						require.Contains(t, holds(name), must(hex.DecodeString(sum)), about...)
					}
				}
			})
		}
	}
	t.Logf("%d runs", runs)
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
