//go:build linux

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A write through a mapping changes the time of a file late, and never on tmpfs. Whether the
// run notices the change or not, the file at the destination matches its digest. The short form has
// one destination and two destinations alternately; the long form has both.
func TestASourceThatChangesThroughAMapping(t *testing.T) {
	for n, kind := range []string{"tmpfs", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			var dir string
			if kind == "tmpfs" {
				dir = treetest.MemoryDir(t)
			} else {
				dir = cloneDisk(t, kind)
			}
			noticed, copied := 0, 0
			for _, reflink := range []ReflinkMode{ReflinkAuto, ReflinkNever} {
				for _, size := range []int{100, 20_000, 1_200_000} {
					for _, when := range []fsys.Op{fsys.OpRead, fsys.OpWrite, fsys.OpClone, fsys.OpStat} {
						n++
						for _, two := range []bool{false, true} {
							if !everyInstant() && two != (n%2 == 0) {
								continue // alternately one of the two
							}
							if copyMapped(t, dir, size, when, reflink, two) {
								copied++
							} else {
								noticed++
							}
						}
					}
				}
			}
			t.Logf("%d noticed, %d copied", noticed, copied)
		})
	}
}

func copyMapped(t *testing.T, dir string, size int, when fsys.Op, reflink ReflinkMode, two bool) (copied bool) {
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	write(t, src, "file", treetest.Pattern(size, 1), since)
	defer treetest.Remove(t, src)
	f, err := os.OpenFile(filepath.Join(src, "file"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(m) //nolint:errcheck // it is
	var mu sync.Mutex
	change := func() {
		for i := 0; i < size; i += 1000 {
			m[i]++
		}
	}
	change() // from now on the pages are written to without the system's knowledge
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == when {
			change()
		}
		return nil
	})
	o := options(src, dst)
	o.BlockSize, o.Reflink, o.Preserve = largeBlock, reflink, metadata.PreserveAll&^metadata.PreserveTimes
	if two {
		o.Targets, o.BlockSize = append(o.Targets, dst+"2"), sweepBlock
	}
	o.FS = sys
	out := watched(t, o)
	for _, target := range o.Targets {
		defer treetest.Remove(t, target)
		have, err := os.ReadFile(filepath.Join(target, "file"))
		if out.summary.Errors > 0 {
			require.ErrorIs(t, err, os.ErrNotExist)
			continue
		}
		require.NoError(t, err)
		sums, err := os.ReadFile(filepath.Join(target, "SHA256SUMS"))
		require.NoError(t, err)
		require.Equal(t, sha(string(have)), readManifest(t, string(sums))["file"], fmt.Sprint(size, when, reflink, two))
	}
	return out.summary.Errors == 0
}
