package verify

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/jobs"
)

// twoTrees makes directories with one file and its manifest each, and opens them.
func twoTrees(t *testing.T, sys *fsys.FS) *run {
	t.Helper()
	o := &Options{FS: sys, Verbose: true, Workers: 1}
	for _, name := range []string{"one", "two"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
		line := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(name)), name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(line), 0o600))
		o.Paths = append(o.Paths, dir)
	}
	r := &run{opts: o, counters: &counters.Set{}, summary: &Summary{}}
	require.NoError(t, r.openTrees(t.Context()))
	t.Cleanup(r.close)
	return r
}

// Each of two devices waits with its first file until the other device reads, too. The
// results are in the order of the directories.
func TestTreesOnDifferentDevicesAreReadAtTheSameTime(t *testing.T) {
	var reading sync.WaitGroup
	reading.Add(2)
	both := make(chan struct{})
	go func() {
		reading.Wait()
		close(both)
	}()
	r := twoTrees(t, faultfs.New(func(op fsys.Op, name string) error {
		if op != fsys.OpOpen || name != "one" && name != "two" {
			return nil
		}
		reading.Done()
		select {
		case <-both:
		case <-time.After(10 * time.Second):
			return fmt.Errorf("%s is read alone", name)
		}
		if name == "one" {
			time.Sleep(10 * time.Millisecond) // usually, the second directory is finished first
		}
		return nil
	}))
	r.trees[0].info.ID.Dev, r.trees[1].info.ID.Dev = 1, 2
	var reported []string
	r.opts.Report = func(v Result) {
		require.NoError(t, v.Err)
		reported = append(reported, v.Path)
	}
	r.check(t.Context())
	require.Equal(t, []string{"one", "two"}, reported)
	require.EqualValues(t, 2, r.summary.Matches)
}

// A line joins the job of an equal line of an earlier manifest, unless many results wait. Then it gets
// its own job.
func TestNoLineJoinsAJobWhileManyResultsWait(t *testing.T) {
	dir := t.TempDir()
	for name, digits := range map[string]int{"MD5SUMS": 32, "SHA1SUMS": 40} {
		digest := strings.Repeat("0", digits)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(digest+"  a\n"+digest+"  b\n"), 0o600))
	}
	for full, want := range map[bool]string{false: "a a, b b", true: "a, b, a, b"} {
		r := &run{opts: &Options{Paths: []string{dir}}, counters: &counters.Set{}, summary: &Summary{}}
		require.NoError(t, r.openTrees(t.Context()))
		defer r.close()
		limit := 1
		if full {
			limit = 0
		}
		r.order = jobs.NewOrder(limit, sizeOf, r.reportPart)
		r.number()
		var sent []string
		r.readLines(t.Context(), r.trees[0], func(j *job) {
			var paths []string
			for _, p := range j.parts {
				paths = append(paths, p.path)
			}
			sent = append(sent, strings.Join(paths, " "))
		})
		require.Equal(t, want, strings.Join(sent, ", "))
	}
}

// The display gets the counters of each of several trees.
func TestTheProgressOfEachTreeIsCounted(t *testing.T) {
	r := twoTrees(t, nil)
	r.trees[0].info.ID.Dev, r.trees[1].info.ID.Dev = 1, 2
	r.show()
	require.True(t, r.scan(t.Context()))
	r.check(t.Context())
	list := r.counters.Destinations()
	require.Len(t, list, 2)
	for i, d := range list {
		require.Equal(t, r.opts.Paths[i], d.Name)
		require.EqualValues(t, i+1, d.Device)
		for _, n := range []int64{d.ReadBack.Bytes.Load(), d.ReadBack.TotalBytes.Load()} {
			require.EqualValues(t, len("one"), n)
		}
		for _, n := range []int64{d.ReadBack.Files.Load(), d.ReadBack.TotalFiles.Load()} {
			require.EqualValues(t, 1, n)
		}
	}
	one := run{opts: r.opts, trees: r.trees[:1], counters: &counters.Set{}}
	one.show()
	require.Empty(t, one.counters.Destinations(), "one tree needs no line")
}
