//go:build linux

package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// uncache takes a file out of the page cache.
func uncache(t *testing.T, path string) (f *fsys.File) {
	t.Helper()
	d, err := fsys.OpenRoot(filepath.Dir(path))
	require.NoError(t, err)
	defer d.Close()
	f, _, err = d.Open(filepath.Base(path))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	_, err = f.DropCache()
	require.NoError(t, err)
	if held, known := f.Cached(0, 0); held || !known {
		t.Skip("the page cache keeps the file")
	}
	return f
}

// A source that changes just before it is cloned, or while its clone is hashed, is read again.
func TestASourceThatChangesWhileItsCloneIsHashed(t *testing.T) {
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			disk := cloneDisk(t, kind)
			for _, when := range []fsys.Op{fsys.OpClone, fsys.OpRead} {
				for name, mutate := range mutations {
					for i, size := range []int{100, 20_000, 1_200_000, 1_200_000} {
						for _, times := range []int{1, 99} {
							t.Run(fmt.Sprint(when, name, i, " x", times), func(t *testing.T) {
								changeWhileCloned(t, disk, when, mutate, size, times, i > 2)
							})
						}
					}
				}
			}
		})
	}
}

func changeWhileCloned(t *testing.T, disk string, when fsys.Op, mutate func(string, int) error, size, times int, cold bool) {
	src, path := filepath.Join(disk, "src"), filepath.Join(disk, "src", "file")
	write(t, src, "file", treetest.Pattern(size, 3), since)
	if cold {
		uncache(t, path)
	}
	var mu sync.Mutex
	clones, done := 0, 0
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == fsys.OpClone {
			clones++
		}
		if op == when && clones > done && done < times {
			done++
			return mutate(path, done)
		}
		return nil
	})
	o := options(src, filepath.Join(disk, "dst"))
	o.Workers, o.BlockSize = 1, largeBlock
	o.FS = sys
	out := watched(t, o)
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	if times == 1 {
		require.False(t, out.anything(), "%s", out)
		require.Equal(t, 2, clones)
		requireContent(t, o, map[string][]byte{"file": now})
	} else {
		require.EqualValues(t, 1, out.summary.Errors)
		require.Equal(t, maxAttempts, clones)
		require.NoFileExists(t, filepath.Join(o.Targets[0], "file"))
	}
	treetest.Remove(t, o.Targets[0])
}

// A run is stopped while a clone is hashed. The next one continues with the saved digests, and
// its writes do not change the source.
func TestResumeOfAClone(t *testing.T) {
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			disk := cloneDisk(t, kind)
			src := filepath.Join(disk, "src")
			files := map[string][]byte{"large": largeContent()}
			write(t, src, "large", files["large"], since)
			o := largeOptions(src, filepath.Join(disk, "dst"))
			stopAt(t, o, firstStop)
			temps := temporaries(t, o.Targets[0])
			require.Len(t, temps, 1)
			info, err := os.Stat(temps[0])
			require.NoError(t, err)
			require.EqualValues(t, largeSize, info.Size(), "it is a clone, or this tests nothing")
			stopAt(t, o, secondStop)
			s := requireCopied(t, o, files)
			require.GreaterOrEqual(t, s.ResumedBytes, int64(secondStop))
			now, err := os.ReadFile(filepath.Join(src, "large"))
			require.NoError(t, err)
			require.True(t, bytes.Equal(files["large"], now))
			treetest.Remove(t, o.Targets[0])

			// always begins anew, which costs nothing, and leaves nothing else.
			o.Reflink = ReflinkAlways
			stopAt(t, o, firstStop)
			s = requireCopied(t, o, files)
			require.Zero(t, s.ResumedBytes)
		})
	}
}

// One destination can share extents and the other cannot: it is written from the same read.
// The counts do not depend on which file is read or written.
func TestACloneBesideACopy(t *testing.T) {
	disk := cloneDisk(t, "xfs")
	src := filepath.Join(disk, "src")
	files := fastTree(t, src)
	for _, hashes := range [][]hash.Algorithm{nil, {hash.SHA256}} {
		for _, others := range [][]string{nil, {filepath.Join(treetest.MemoryDir(t), "dst")}} {
			o := options(src, append(others, filepath.Join(disk, "dst"))...)
			o.Hashes, o.Workers = hashes, 1
			for name := range files {
				uncache(t, filepath.Join(src, name))
			}
			a := refusing(nil, nil)
			o.FS = a.fs
			c := &counters.Set{}
			s, err := Run(context.Background(), &o, c)
			require.NoError(t, err)
			require.Zero(t, s.Errors)
			size := int64(0)
			for _, content := range files {
				size += int64(len(content))
			}
			require.Equal(t, size, s.Bytes)
			require.Equal(t, size, c.Bytes.Load())
			require.Equal(t, 7+len(others), a.clones, "one refusal for the pair")
			require.Zero(t, a.ranges)
			requireContent(t, o, files)
			treetest.Remove(t, filepath.Join(disk, "dst"))
		}
	}
}

// If no part of the source is in memory, the clone is read. The copy has the source's
// metadata.
func TestACloneIsReadWhereItIsNotInMemory(t *testing.T) {
	disk := cloneDisk(t, "xfs")
	src := filepath.Join(disk, "src")
	content := treetest.Pattern(bigSize, 1)
	write(t, src, "file", content, since)
	require.NoError(t, os.Chmod(filepath.Join(src, "file"), os.ModeSetuid|0o751))
	require.NoError(t, os.Chtimes(filepath.Join(src, "file"), since, since))
	f := uncache(t, filepath.Join(src, "file"))
	o := options(src, filepath.Join(disk, "dst"))
	requireCopied(t, o, map[string][]byte{"file": content})
	held, _ := f.Cached(0, 0)
	require.False(t, held, "the clone was to be read")
	info, err := os.Stat(filepath.Join(o.Targets[0], "file"))
	require.NoError(t, err)
	require.Equal(t, os.ModeSetuid|0o751, info.Mode())
	require.True(t, info.ModTime().Equal(since))
	require.WithinDuration(t, time.Now(), time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix()), time.Hour)
}
