package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// duplicate copies the present state of a destination, which is that after a kill at this
// moment.
func duplicate(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(to))
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// A copy that is stopped several times continues each time, and its digests are those of the
// complete file, for each digest alone and for all together. Each stopped run says how much the next one
// continues with, also one that is stopped while it reads the beginning again.
func TestResumedDigestsAreThoseOfTheWhole(t *testing.T) {
	t.Parallel()
	dir, source, files := largeSource(t)
	sets := [][]hash.Algorithm{hash.Algorithms(), nil}
	if everyInstant() { // each digest alone, whose state is the same as among the others
		for _, a := range hash.Algorithms() {
			sets = append(sets, []hash.Algorithm{a})
		}
	}
	for _, hashes := range sets {
		o := largeOptions(source, filepath.Join(dir, "dst"))
		o.Hashes = hashes
		stops := []int64{firstStop, secondStop, thirdStop, 1}
		if hashes == nil {
			stops = stops[:1] // the system copies the rest in one call
		}
		kept := int64(0)
		for _, stop := range stops {
			at := stopAt(t, o, stop).Targets[0]
			require.Len(t, temporaries(t, o.Targets[0]), 1, "%v", hashes)
			require.EqualValues(t, 1, at.PartialFiles)
			require.GreaterOrEqual(t, at.PartialBytes, max(kept, stop), "%v", hashes)
			kept = at.PartialBytes
		}
		s := requireCopied(t, o, files)
		require.Equal(t, kept, s.ResumedBytes, "%v", hashes)
		require.Zero(t, s.Targets[0].PartialFiles)
		treetest.Remove(t, o.Targets[0])
	}
}

// Bytes that an interrupted run has copied count as resumed. They are no part of the bytes
// copied or of rates.
func TestResumedBytesAreNotCopiedBytes(t *testing.T) {
	dir, source, files := largeSource(t)
	o := largeOptions(source, filepath.Join(dir, "dst"))
	stopAt(t, o, secondStop)
	c := &counters.Set{}
	s, err := Run(t.Context(), &o, c)
	require.NoError(t, err)
	requireContent(t, o, files)
	total := int64(0)
	for _, content := range files {
		total += int64(len(content))
	}
	require.GreaterOrEqual(t, s.ResumedBytes, int64(secondStop))
	require.Equal(t, total-s.ResumedBytes, s.Bytes)
	require.Equal(t, total, c.Bytes.Load())
	require.Equal(t, s.ResumedBytes, c.Unread.Load())

	c = &counters.Set{}
	s, err = Run(t.Context(), &o, c) // which has nothing to do
	require.NoError(t, err)
	require.Zero(t, s.Bytes+s.ResumedBytes)
	require.Equal(t, total, c.Unread.Load())
}

// One destination is complete and another one is continued: the comparison of the complete file, and the
// part of the source that a digest reads again, are counted as checks.
func TestChecksAreNoProgressOfTheCopy(t *testing.T) {
	linuxOnly(t, "it needs cp")
	for _, c := range []struct {
		hash     hash.Algorithm
		complete bool
	}{{hash.SHA256, true}, {hash.BLAKE3, false}} {
		dir, source, files := largeSource(t)
		one, two := filepath.Join(dir, "1"), filepath.Join(dir, "2")
		o := largeOptions(source, one, two)
		o.Hashes = []hash.Algorithm{c.hash}
		stopAt(t, o, secondStop)
		if c.complete {
			out, err := exec.Command("cp", "-a", source+"/.", one).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		counts := &counters.Set{}
		o.FS = &fsys.FS{Fault: func(fsys.Call) error {
			if counts.Checked.Load() > counts.CheckTotal.Load() {
				t.Error("counters do not agree")
			}
			return nil
		}}
		s, err := Run(t.Context(), &o, counts)
		require.NoError(t, err)
		requireContent(t, o, files)
		require.GreaterOrEqual(t, s.ResumedBytes, int64(secondStop))
		require.GreaterOrEqual(t, counts.Checked.Load(), int64(secondStop), "%v", c.hash)
		require.Equal(t, counts.CheckTotal.Load(), counts.Checked.Load(), "%v", c.hash)
	}
}

// One of two destinations has lost its journal. Both are copied from the beginning.
func TestResumeStartsAgainWithoutTheJournalOfOneDestination(t *testing.T) {
	t.Parallel()
	dir, source, files := largeSource(t)
	o := largeOptions(source, filepath.Join(dir, "1"), filepath.Join(dir, "2"))
	stopAt(t, o, secondStop)
	treetest.Remove(t, filepath.Join(o.Targets[1], resume.JournalName("")))
	for _, temp := range temporaries(t, o.Targets[1]) {
		require.NoError(t, os.Remove(temp))
	}
	s := requireCopied(t, o, files)
	require.Zero(t, s.ResumedBytes)
}

// A destination that was ahead of another goes back to the other's offset, and so does its
// journal. If the run ends before it reaches the old offset again, the journal lists only
// bytes that exist.
func TestResumeFromTheLeastOfSeveralDestinations(t *testing.T) {
	linuxOnly(t, "it needs cp")
	dir, source, files := largeSource(t)
	behind, ahead := filepath.Join(dir, "behind"), filepath.Join(dir, "ahead")
	earlier, killed := filepath.Join(dir, "earlier"), filepath.Join(dir, "killed")
	o := largeOptions(source, behind, ahead)

	stopAt(t, o, firstStop)
	duplicate(t, behind, earlier)
	stopAt(t, o, secondStop)
	duplicate(t, earlier, behind)

	temp := temporaries(t, ahead)[0]
	var once sync.Once
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpWrite {
			if info, err := os.Stat(temp); err == nil && info.Size() < secondStop {
				once.Do(func() { duplicate(t, ahead, killed) })
			}
		}
		return nil
	})
	stopAt(t, in(sys, o), thirdStop)
	_, err := os.Stat(killed)
	require.NoError(t, err, "or this tests nothing: it did not go back")
	duplicate(t, killed, ahead)

	requireCopied(t, o, files)
}

// A run is stopped while it reads the known part of a file again, for a digest whose state
// cannot be saved. It keeps the partial file.
func TestResumeStoppedBeforeItContinues(t *testing.T) {
	t.Parallel()
	for _, a := range []hash.Algorithm{hash.BLAKE3, hash.SHA256} {
		dir, source, files := largeSource(t)
		o := largeOptions(source, filepath.Join(dir, "1"), filepath.Join(dir, "2"))
		o.Hashes = []hash.Algorithm{a}
		stopAt(t, o, secondStop)
		for reads := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			begun, count := false, 0
			var mu sync.Mutex
			sys := faultfs.New(func(op fsys.Op, name string) error {
				mu.Lock()
				defer mu.Unlock()
				begun = begun || op == fsys.OpOpen && strings.HasSuffix(name, ".tmp")
				if begun && op == fsys.OpRead {
					if count++; count > 2*reads {
						cancel()
					}
				}
				return nil
			})
			o.FS = sys
			_, err := Run(ctx, &o, &counters.Set{})
			cancel()
			require.ErrorIs(t, err, context.Canceled)
			for _, target := range o.Targets {
				require.Len(t, temporaries(t, target), 1, "%s, stopped after %d reads", a, 2*reads)
			}
		}
		o.FS = nil
		s := requireCopied(t, o, files)
		require.GreaterOrEqual(t, s.ResumedBytes, int64(secondStop), a)
	}
}

// A temporary file that is shorter than its journal records is not continued.
func TestResumeOfATemporaryFileThatIsTooShort(t *testing.T) {
	t.Parallel()
	for _, sparse := range []SparseMode{SparseAuto, SparseAlways, SparseNever} {
		dir, source, files := largeSource(t)
		o := largeOptions(source, filepath.Join(dir, "dst"))
		o.Sparse = sparse
		stopAt(t, o, secondStop)
		require.NoError(t, os.Truncate(temporaries(t, o.Targets[0])[0], firstStop))
		requireCopied(t, o, files)
	}
}

// A link, fifo or other entry that has the name of the temporary file is neither followed nor
// waited for.
func TestResumeIgnoresHostileTemporaryFiles(t *testing.T) {
	linuxOnly(t, "it needs fifos")
	t.Parallel()
	for name, put := range map[string]func(t *testing.T, temp, outside string){
		"symlink": func(t *testing.T, temp, outside string) { require.NoError(t, os.Symlink(outside, temp)) },
		"link":    func(t *testing.T, temp, outside string) { require.NoError(t, os.Link(outside, temp)) },
		"fifo":    func(t *testing.T, temp, _ string) { treetest.Create(t, temp, treetest.Fifo()) },
		"nothing": func(*testing.T, string, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir, source, files := largeSource(t)
			o := largeOptions(source, filepath.Join(dir, "dst"))
			stopAt(t, o, secondStop)
			temp := temporaries(t, o.Targets[0])[0]
			require.NoError(t, os.Remove(temp))
			outside := filepath.Join(dir, "outside")
			secret := otherLarge()
			require.NoError(t, os.WriteFile(outside, secret, 0o640))
			put(t, temp, outside)
			s := requireCopied(t, o, files)
			require.Zero(t, s.ResumedBytes)
			content, err := os.ReadFile(outside)
			require.NoError(t, err)
			require.True(t, bytes.Equal(secret, content), "what is outside was changed")
		})
	}
	t.Run("directory", func(t *testing.T) { // the run must not remove it
		dir, source, files := largeSource(t)
		o := largeOptions(source, filepath.Join(dir, "dst"))
		stopAt(t, o, secondStop)
		temp := temporaries(t, o.Targets[0])[0]
		require.NoError(t, errors.Join(os.Remove(temp), os.Mkdir(temp, 0o700)))
		watched(t, o)
		content, err := os.ReadFile(filepath.Join(o.Targets[0], "large"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(files["large"], content))
	})
}

// A journal that names a temporary file outside its directory, or a name of another form, is
// damaged from that line on.
func TestResumeIgnoresPathsOutsideTheDestination(t *testing.T) {
	t.Parallel()
	for _, temp := range []string{"../outside.tmp", ".sealift-/../../outside.tmp", "outside.tmp"} {
		dir, source, files := largeSource(t)
		o := largeOptions(source, filepath.Join(dir, "dst"))
		stopAt(t, o, secondStop)
		left := temporaries(t, o.Targets[0])[0]
		name := logs(t, o.Targets[0])[0]
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		lines := strings.SplitAfter(string(content), "\n")
		id := strings.Fields(lines[0])[3]
		for i, line := range lines[1:] {
			if len(line) == 0 {
				continue
			}
			rest := strings.ReplaceAll(strings.TrimSuffix(line[9:], "\n"), filepath.Base(left), temp)
			sum := crc32.Checksum([]byte(id+rest), crc32.MakeTable(crc32.Castagnoli))
			lines[i+1] = fmt.Sprintf("%08x %s\n", sum, rest)
		}
		require.NoError(t, os.WriteFile(name, []byte(strings.Join(lines, "")), 0o600))
		secret := otherLarge()
		places := []string{filepath.Join(dir, "outside.tmp"), filepath.Join(o.Targets[0], "outside.tmp")}
		for _, place := range places {
			require.NoError(t, os.WriteFile(place, secret, 0o600))
		}
		out := watched(t, o)
		require.NoError(t, out.err)
		require.False(t, out.anything(), "%s", out)
		require.Zero(t, out.summary.ResumedBytes)
		for _, place := range places {
			content, err := os.ReadFile(place)
			require.NoError(t, err)
			require.True(t, bytes.Equal(secret, content), "%s was changed", place)
		}
		require.NoError(t, os.Remove(places[1]))
		requireContent(t, o, files)
	}
}

// The temporary file of a file that the source no longer has is removed, in any directory.
func TestTemporaryFilesOfRemovedSourcesAreRemoved(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"a/b/large", "a/b", "a"} {
		dir := treetest.MemoryDir(t)
		source := filepath.Join(dir, "src")
		write(t, source, "a/b/large", treetest.Pattern(largeSize, 1), since)
		write(t, source, "z", treetest.Pattern(100, 2), since)
		o := largeOptions(source, filepath.Join(dir, "dst"))
		stopAt(t, o, secondStop)
		treetest.Remove(t, filepath.Join(source, gone))
		requireCopied(t, o, map[string][]byte{"z": treetest.Pattern(100, 2)})
		require.NoError(t, filepath.WalkDir(o.Targets[0], func(path string, d fs.DirEntry, err error) error {
			require.NotContains(t, path, fsys.Reserved)
			return err
		}))
	}
}

// The progress has the name, the size and the part that is read of each large file.
func TestLargeFilesHaveTheirOwnProgress(t *testing.T) {
	t.Parallel()
	dir, source, _ := largeSource(t)
	o := largeOptions(source, filepath.Join(dir, "dst"))
	c := &counters.Set{CountTotals: true}
	var seen []counters.Running
	o.FS = faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpRead {
			seen = append(seen, c.Running()...)
		}
		return nil
	})
	o.Workers = 1
	runCounted(t, o, c)
	require.NotEmpty(t, seen)
	for i, f := range seen {
		require.Equal(t, []any{"large", int64(largeSize)}, []any{f.Path, f.Size})
		require.Positive(t, f.At)
		require.LessOrEqual(t, f.At, f.Size)
		require.True(t, i == 0 || f.At > seen[i-1].At)
	}
	require.Empty(t, c.Running())
}
