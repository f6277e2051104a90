//go:build linux

package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A copy of any copy matches the manifests of its source, and its manifests are the same, byte
// for byte. One flipped bit is reported once for each name of the file, and the file is not
// copied.
func TestPropertyCopyOfACopy(t *testing.T) {
	checkNew(t, 50, func(t *rapid.T) {
		c := newTrial(t, "")
		defer c.remove()
		require.NoError(t, treetest.Make(c.source, c.tree(2)))
		c.options.Targets = c.options.Targets[:1]
		c.run(c.options)
		first := c.checkManifests()

		on := c.options
		on.Source, on.Targets = c.options.Targets[0], []string{filepath.Join(c.dir, "on")}
		on.Verify = rapid.SampledFrom([]engine.VerifyMode{engine.VerifyOff, engine.VerifyOff, engine.VerifyDest, engine.VerifyFull}).Draw(t, "verify")
		summary := c.run(on)
		var manifests []string
		for p, content := range first {
			manifests = append(manifests, filepath.Base(p))
			require.Equal(t, content, readAll(c, filepath.Join(on.Targets[0], filepath.Base(p))))
		}
		differences, err := treetest.Diff(on.Source, on.Targets[0], treetest.Options{
			Ignore: manifests, NoHoles: c.options.Sparse == engine.SparseNever,
		})
		require.NoError(t, err)
		require.Empty(t, differences)
		if on.Verify != engine.VerifyOff {
			require.EqualValues(t, summary.Files+summary.HardLinks, summary.Targets[0].Verified)
		}

		victims := c.names(on.Source, first)
		if len(victims) == 0 {
			return
		}
		on.Targets[0] = filepath.Join(c.dir, "on2")
		var reported []string
		on.Report = func(e event.Event) {
			if e.Kind != event.Copied && e.Kind != event.Skipped {
				require.Equal(t, event.Mismatch, e.Kind, "%v", e.Err)
				reported = append(reported, e.Path)
			}
		}
		_, err = engine.Run(t.Context(), &on, &counters.Set{})
		require.NoError(t, err)
		slices.Sort(reported)
		require.Equal(t, victims, reported)
		for _, name := range victims {
			_, err := os.Lstat(filepath.Join(on.Targets[0], name))
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		differences, err = treetest.Diff(on.Source, on.Targets[0], treetest.Options{
			Ignore: append(slices.Concat(victims, manifests), incomplete.Name(on.Source, 1)), NoLinks: true, NoHoles: c.options.Sparse == engine.SparseNever,
		})
		require.NoError(t, err)
		require.Empty(t, differences)
	})
}

// names flips a bit in one of the files below root and returns all names of that file, sorted. The
// file is not empty and no manifest.
func (c *trial) names(root string, manifests map[string]string) []string {
	var paths []string
	infos := map[string]os.FileInfo{}
	require.NoError(c, filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if _, own := manifests[p]; err == nil && info.Mode().IsRegular() && info.Size() > 0 && !own {
			rel := strings.TrimPrefix(p, root+"/")
			paths = append(paths, rel)
			infos[rel] = info
		}
		return err
	}))
	if len(paths) == 0 {
		return nil
	}
	victim := rapid.SampledFrom(paths).Draw(c.T, "victim")
	content := []byte(readAll(c, filepath.Join(root, victim)))
	content[rapid.IntRange(0, len(content)-1).Draw(c.T, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(c.T, "bit")
	require.NoError(c, overwrite(filepath.Join(root, victim), content))
	at := infos[victim].ModTime()
	require.NoError(c, os.Chtimes(filepath.Join(root, victim), at, at))
	names := slices.DeleteFunc(paths, func(p string) bool { return !os.SameFile(infos[p], infos[victim]) })
	slices.Sort(names)
	return names
}
