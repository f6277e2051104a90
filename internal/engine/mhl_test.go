package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

func mhlOptions(src string, sys *fsys.FS, targets ...string) *Options {
	return &Options{
		Source: src, Targets: targets, Records: Records{Hashes: []hash.Algorithm{hash.XXH64}, MHL: &MHL{Hashes: []hash.Algorithm{hash.XXH64}, Creator: mhl.Creator{Time: time.Unix(1_700_000_000, 0), Hostname: "h", Tool: "sealift"}}},
		Preserve: metadata.PreserveAll, Resources: Resources{DirtyWindow: DirtyWindowOff, BlockSize: MinBlockSize, QueueSize: 2, Workers: 1, Memory: 1 << 20},
		FS: sys, forTests: forTests{checkEvery: time.Hour},
	}
}

// openHistories reads the histories of a tree, which it checks against their chains.
func openHistories(dir string) (*mhl.Tree, error) {
	root, err := fsys.OpenRoot(dir) //nolint:forbidigo // the test reads the tree without fault injection
	if err != nil {
		return nil, err
	}
	defer root.Close()
	survey, err := mhl.NewSurvey(root, mhl.NewIgnore().Hides)
	if err != nil {
		return nil, err
	}
	return mhl.Open(root, survey.Nested, extsort.TempFile)
}

// listedFiles returns how many files the histories of a tree list, and how many generations
// that of its root has.
func listedFiles(dir string) (files, generations int, err error) {
	t, err := openHistories(dir)
	if err != nil {
		return 0, 0, err
	}
	if h := t.At(""); h != nil {
		generations = len(h.Chain)
	}
	err = t.Each(func(r *mhl.Record) error {
		if !r.IsDir {
			files++
		}
		return nil
	})
	return files, generations, errors.Join(err, t.Close())
}

// The power is cut before each operation of a copy of a tree with two histories to two
// destinations, of which one has an earlier copy. Then no chain is broken, no history of a
// complete copy is there before the copy is complete, and the same command completes all.
func TestPowerCutOfACopyWithHistories(t *testing.T) {
	linuxOnly(t, "elsewhere a temporary file has a name, which can outlive the journal that lists it")
	t.Parallel()
	dir := treetest.MemoryDir(t)
	plain, nested, src, old := filepath.Join(dir, "plain"), filepath.Join(dir, "nested"), filepath.Join(dir, "src"), filepath.Join(dir, "old")
	tree := treetest.Dir{
		"a": treetest.File("a"), "big": treetest.File(string(treetest.Pattern(3*MinBlockSize+1, 3))),
		"n": treetest.Dir{"b": treetest.File("b"), "e": treetest.Dir{}},
	}
	treetest.Create(t, plain, tree)
	run := func(o *Options) {
		s, err := Run(t.Context(), o, &counters.Set{})
		require.NoError(t, clean(s, err))
	}
	run(mhlOptions(filepath.Join(plain, "n"), nil, filepath.Join(nested, "n")))
	treetest.Create(t, nested, treetest.Dir{"a": treetest.File("a"), "big": treetest.File(string(treetest.Pattern(3*MinBlockSize+1, 3)))})
	run(mhlOptions(nested, nil, src))
	run(mhlOptions(src, nil, old))
	// The source has one more file and one more generation of its own: that of the copy to
	// the second disk, which is the longer chain.
	require.NoError(t, os.WriteFile(filepath.Join(src, "later"), []byte("later"), 0o600))
	files, generations, err := listedFiles(src)
	require.NoError(t, err)
	require.Equal(t, []int{3, 1}, []int{files, generations})

	step := sweepStride(43)
	try := func(n int64) (done bool, wrong []string) {
		work := filepath.Join(dir, fmt.Sprint("cut", n))
		base := filepath.Join(work, "disk")
		defer os.RemoveAll(work) //nolint:errcheck // t.TempDir removes the parent directory, too
		require.NoError(t, os.MkdirAll(base, 0o755))
		require.NoError(t, os.CopyFS(filepath.Join(base, "one"), os.DirFS(old)))
		disk, err := faultfs.NewDisk(base, true)
		require.NoError(t, err)
		targets := func(base string) []string { return []string{filepath.Join(base, "one"), filepath.Join(base, "two")} }
		s, err := Run(t.Context(), mhlOptions(src, &fsys.FS{Disk: disk, Fault: disk.CutAt(n)}, targets(base)...), &counters.Set{})
		done = clean(s, err) == nil
		for seed := range uint64(3) {
			if !everyInstant() && seed != uint64(n/step%3) {
				continue
			}
			complain := func(format string, args ...any) {
				wrong = append(wrong, fmt.Sprintf("cut at operation %d, seed %d: ", n, seed)+fmt.Sprintf(format, args...))
			}
			into := filepath.Join(work, fmt.Sprint("left", seed))
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			survives := func() bool { return random.IntN(2) == 0 }
			if seed == 0 {
				survives = nil
			}
			require.NoError(t, disk.Lose(into, survives))
			for i, target := range targets(into) {
				if _, err := os.Stat(target); err != nil {
					continue
				}
				files, generations, err := listedFiles(target)
				if err != nil {
					complain("%d: %v", i, err)
				}
				if i == 1 && generations > 1 && files < 4 {
					complain("the new history lists %d files", files)
				}
				if done && (files != 4 || generations != []int{3, 2}[i]) {
					complain("%d: after exit 0 there are %d files in %d generations", i, files, generations)
				}
			}
			s, err := Run(t.Context(), mhlOptions(src, nil, targets(into)...), &counters.Set{})
			if err := clean(s, err); err != nil {
				complain("the next run: %v", err)
				continue
			}
			for i, target := range targets(into) {
				files, generations, err := listedFiles(target)
				if err != nil || files != 4 || generations < []int{3, 2}[i] {
					complain("%d: after the next run there are %d files in %d generations: %v", i, files, generations, err)
				}
				differences, err := treetest.Diff(src, target, treetest.Options{Ignore: []string{"ascmhl", "n/ascmhl"}, NoTimes: true})
				require.NoError(t, err)
				if len(differences) > 0 {
					complain("%d: after the next run: %s", i, strings.Join(differences, "\n"))
				}
				if left, _ := filepath.Glob(filepath.Join(target, "*", fsys.Reserved+"*")); len(left) > 0 {
					complain("%d: left over: %v", i, left)
				}
			}
		}
		return done, wrong
	}
	n := int64(1)
	for done := false; !done; n += step {
		var wrong []string
		done, wrong = try(n)
		require.Empty(t, wrong)
		require.Less(t, n, int64(5000))
	}
	t.Logf("%d operations", n)
}
