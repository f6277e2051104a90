package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// bagCut is the making of a bag in which the power is cut at each operation.
type bagCut struct {
	src    string
	sync   dest.SyncMode
	hashes []hash.Algorithm
}

func (c *bagCut) options(base string, sys *fsys.FS) *Options {
	o := bagging(c.src, filepath.Join(base, "dst"))
	o.Sync, o.Workers, o.Hashes, o.DirtyWindow, o.FS, o.checkEvery = c.sync, 1, c.hashes, DirtyWindowOff, sys, time.Hour
	if isDeclared(c.src) {
		o.Bag.Info = nil
	}
	return &o
}

// try cuts the power before the n-th operation. done says that the run had ended.
func (c *bagCut) try(t *testing.T, dir string, n int64) (done bool, wrong []string) {
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("cut at operation %d: ", n)+fmt.Sprintf(format, args...))
	}
	base := filepath.Join(dir, "disk")
	err := os.MkdirAll(filepath.Join(base, "dst"), 0o755)
	disk, err2 := faultfs.NewDisk(base, true)
	if err = errors.Join(err, err2); err != nil {
		return false, []string{err.Error()}
	}
	err = clean(Run(t.Context(), c.options(base, &fsys.FS{Disk: disk, Fault: disk.CutAt(n)}), &counters.Set{}))
	done = err == nil
	for seed := range uint64(2) {
		if !everyInstant() && seed != uint64(n)%2 {
			continue
		}
		into := filepath.Join(dir, fmt.Sprint("left", seed))
		dst := filepath.Join(into, "dst")
		if err := disk.Lose(into, survivors(seed, n)); err != nil {
			complain("%v", err)
			continue
		}
		if done && !isDeclared(dst) {
			complain("seed %d: bagit.txt is gone after exit 0", seed)
		}
		if isDeclared(dst) {
			for _, w := range validate(dst) {
				if !isSign(w) {
					complain("seed %d: there is a bagit.txt, and %s", seed, w)
				}
			}
		}
		if err := clean(Run(t.Context(), c.options(into, nil), &counters.Set{})); err != nil {
			complain("seed %d: the next run: %v", seed, err)
			continue
		}
		for _, w := range validate(dst) {
			complain("seed %d: after the next run: %s", seed, w)
		}
	}
	return done, wrong
}

// treeAndBag makes a tree and a bag of it, both in the directory memory.
func treeAndBag(t *testing.T) (memory, plain, bagged string) {
	memory = treetest.MemoryDir(t)
	plain, bagged = filepath.Join(memory, "src"), filepath.Join(memory, "bag")
	treetest.Create(t, plain, payloadTree())
	runs(t, bagging(plain, bagged))
	return memory, plain, bagged
}

// The power is cut before each operation. Then there is no bagit.txt, or the bag is complete
// and valid, and the same command completes it.
func TestABagIsCompleteOrHasNoDeclarationAfterAPowerCut(t *testing.T) {
	linuxOnly(t, "elsewhere a temporary file has a name, which can outlive the journal that lists it")
	t.Parallel()
	_, plain, bagged := treeAndBag(t)
	for _, c := range []bagCut{
		{plain, dest.SyncEnd, []hash.Algorithm{hash.MD5, hash.SHA256}},
		{plain, dest.SyncFile, []hash.Algorithm{hash.SHA256}},
		{bagged, dest.SyncEnd, []hash.Algorithm{hash.SHA256}},
	} {
		t.Run(fmt.Sprint(filepath.Base(c.src), ", ", c.sync), func(t *testing.T) {
			t.Parallel()
			dir := treetest.MemoryDir(t)
			enough := func(n int64, ended int) bool { return ended > 2 || n > 10_000 }
			wrong, ended := cutEach(1, sweepStride(9), enough, func(n int64) (bool, []string) {
				own := filepath.Join(dir, fmt.Sprint(n))
				defer treetest.Remove(t, own)
				return c.try(t, own, n)
			})
			require.Empty(t, wrong, strings.Join(wrong, "\n"))
			require.Positive(t, ended, "no run has ended")
		})
	}
}

// Each operation fails once. The run then reports the failure or has made a valid bag
// nevertheless, and the next run makes one.
func TestABagIsCompleteOrHasNoDeclarationAfterAFault(t *testing.T) {
	linuxOnly(t, "system calls are slow elsewhere, and there are two runs for each")
	t.Parallel()
	memory, plain, bagged := treeAndBag(t)
	for _, src := range []string{plain, bagged} {
		stride, clean, enough := sweepStride(9), 0, 3
		for n := int64(1); clean < enough; n += stride {
			c := bagCut{src, dest.SyncEnd, []hash.Algorithm{hash.SHA256}}
			base := filepath.Join(memory, "fault")
			dst := filepath.Join(base, "dst")
			require.NoError(t, os.MkdirAll(base, 0o755))
			var failed *fsys.Call
			fault := faultfs.OnIndex(n, func(call fsys.Call) error {
				failed = &call
				return syscall.EIO
			})
			o := c.options(base, &fsys.FS{Fault: fault})
			s, err := Run(t.Context(), o, &counters.Set{})
			if failed == nil {
				clean++
			}
			complete := err == nil && s.Errors+s.Mismatches == 0
			if complete || isDeclared(dst) {
				for _, w := range validate(dst) {
					if complete || !isSign(w) {
						t.Errorf("operation %d of %s, %v: %s", n, filepath.Base(src), failed, w)
					}
				}
			}
			s, err = Run(t.Context(), c.options(base, nil), &counters.Set{})
			if err != nil || s.Errors+s.Mismatches+s.Conflicts > 0 {
				t.Errorf("operation %d of %s, %v: the next run: %v, %+v", n, filepath.Base(src), failed, err, s)
			} else if wrong := validate(dst); len(wrong) > 0 {
				t.Errorf("operation %d of %s, %v: after the next run: %q", n, filepath.Base(src), failed, wrong)
			}
			treetest.Remove(t, base)
		}
	}
}

// isSign reports whether a complaint is about the journal or the marker of an incomplete run.
func isSign(complaint string) bool {
	return strings.Contains(complaint, fmt.Sprintf(": %d ", verify.Incomplete))
}
