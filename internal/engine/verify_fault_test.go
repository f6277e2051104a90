package engine

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The sweep lets each operation of the read-back fail once, while some files are corrupt. The run
// reports each failure, or the failure makes no difference. It reports the corrupt files in any
// case. No manifest lists a file that was not read. A second run completes the copy.

// The corrupt files: at the first destination, at the second one, and in the source.
const (
	rottenFirst  = "b/inline"
	rottenSecond = "link"
	rottenSource = "big"
)

type verifySweep struct {
	t        *testing.T
	src, dir string
	files    map[string][]byte
	fail     operation // of the verifying phase
	err      error     // nil: only count
	counts   map[fsys.Op]int
	hit      bool
}

// run copies to two destinations, the second of which has its files already,
// and lets the files rot when they are there.
func (s *verifySweep) run(targets []string) *runReport {
	c := &counters.Set{}
	rotted := false
	s.counts, s.hit = map[fsys.Op]int{}, false
	var mu sync.Mutex
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if counters.Phase(c.Phase.Load()) != counters.PhaseVerifying {
			return nil
		}
		if !rotted {
			rotted = true
			spoil(s.t, filepath.Join(targets[0], rottenFirst))
			spoil(s.t, filepath.Join(targets[1], rottenSecond))
			spoil(s.t, filepath.Join(s.src, rottenSource))
		}
		nth := s.counts[op]
		s.counts[op]++
		if s.err == nil || s.hit || s.fail != (operation{op, nth}) {
			return nil
		}
		s.hit = true
		return s.err
	})
	o := verifying(VerifyFull, s.src, targets...)
	o.FS = sys
	o.Workers = 1
	out := runCounted(s.t, o, c)
	require.True(s.t, rotted)
	spoil(s.t, filepath.Join(s.src, rottenSource)) // flips the bit back
	return out
}

func (s *verifySweep) fresh(name string) []string {
	base := filepath.Join(s.dir, name)
	targets := []string{filepath.Join(base, "1"), filepath.Join(base, "2")}
	for path, content := range s.files {
		if path != "other-link" {
			write(s.t, targets[1], path, content, since)
		}
	}
	require.NoError(s.t, os.Link(filepath.Join(targets[1], rottenSecond), filepath.Join(targets[1], "other-link")))
	return targets
}

// complaints returns what no failure excuses.
func (s *verifySweep) complaints(targets []string, out *runReport) (list []string) {
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for i, target := range targets {
		good := func(path string) bool {
			b, err := os.ReadFile(filepath.Join(target, path))
			return err == nil && bytes.Equal(b, s.files[path])
		}
		b, _ := os.ReadFile(filepath.Join(target, "SHA256SUMS"))
		lines := readManifest(s.t, string(b))
		about := func(path string) bool {
			return slices.ContainsFunc(out.bad(), func(e event.Event) bool {
				return e.Path == path || e.Target == target && (e.Path == "" || e.Kind == event.DestinationLost)
			})
		}
		unverified := 0 // files that were left in place, and reported
		for path, digest := range lines {
			if digest != sha(string(s.files[path])) || !good(path) && !about(path) {
				complain("destination %d lists %s, which is not so", i+1, path)
			}
			unverified += btoi(about(path))
		}
		for path := range look(s.t, target) {
			if strings.HasPrefix(path, fsys.Reserved) && strings.HasSuffix(path, ".tmp") {
				complain("a temporary: %s", path)
			}
		}
		if n := out.summary.Targets[i].Verified; len(lines) > 0 && int(n) < len(lines)-unverified {
			complain("destination %d: %d lines, %d files verified", i+1, len(lines), n)
		}
		rotten := []string{rottenFirst, rottenSecond}[i]
		for path := range s.files {
			if !good(path) && !about(path) {
				complain("destination %d: no report about %s", i+1, path)
			}
			if _, ok := lines[path]; !ok && !about(path) {
				complain("destination %d: %s is not listed, without a report", i+1, path)
			}
		}
		if fileExists(filepath.Join(target, rotten)) {
			reported := slices.ContainsFunc(out.bad(), func(e event.Event) bool { return e.Path == rotten && e.Target == target })
			if !reported && out.summary.Targets[i].Lost == nil {
				complain("destination %d: %s is corrupt and keeps its name, without a report", i+1, rotten)
			}
		}
		if info, err := os.Stat(filepath.Join(target, "b")); err == nil && !info.ModTime().Equal(before) {
			if !slices.ContainsFunc(out.bad(), func(e event.Event) bool { return strings.Contains(e.Err.Error(), "input/output") }) {
				complain("destination %d: the directory's time is %v, without a report", i+1, info.ModTime())
			}
		}
	}
	return list
}

func TestFaultSweepWhileReadingBack(t *testing.T) {
	t.Parallel()
	s := &verifySweep{t: t, dir: treetest.MemoryDir(t)}
	s.src = filepath.Join(s.dir, "src")
	s.files = map[string][]byte{
		"a": treetest.Pattern(50, 1), rottenFirst: treetest.Pattern(100, 2), "b/empty": {},
		rottenSource: treetest.Pattern(bigSize, 3), rottenSecond: treetest.Pattern(200, 4), "other-link": treetest.Pattern(200, 4),
	}
	for path, content := range s.files {
		if path != "other-link" {
			write(t, s.src, path, content, since)
		}
	}
	require.NoError(t, os.Link(filepath.Join(s.src, rottenSecond), filepath.Join(s.src, "other-link")))
	require.NoError(t, os.Chtimes(filepath.Join(s.src, "b"), before, before))

	targets := s.fresh("clean")
	out := s.run(targets)
	require.Empty(t, s.complaints(targets, out))
	clean := out.String()
	require.Zero(t, out.summary.Errors)
	require.EqualValues(t, 4, out.summary.Mismatches, "one, one with two names, one of the source")
	counts := s.counts
	require.Len(t, listed(t, targets[0]), 5)
	require.Len(t, listed(t, targets[1]), 4)

	total, silent := 0, 0
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		errs := []error{syscall.EIO}
		if op == fsys.OpRename || op == fsys.OpRead {
			errs = append(errs, syscall.EROFS, syscall.EACCES)
		}
		for nth := range counts[op] {
			failures := errs
			if !everyInstant() {
				failures = errs[nth%len(errs):][:1]
			}
			for _, err := range failures {
				total++
				s.fail, s.err = operation{op, nth}, err
				targets := s.fresh(fmt.Sprint(total))
				out := s.run(targets)
				require.True(t, s.hit, "%s", s.fail)
				wrong := s.complaints(targets, out)
				different := strings.ReplaceAll(out.String(), filepath.Base(filepath.Dir(targets[0])), "clean") != clean
				switch {
				case different && out.summary.Errors+out.summary.Mismatches == 0:
					wrong = append(wrong, "the exit code would be 0")
				case !different: // then it made no difference
					silent++
					for i, names := range []int{5, 4} {
						if len(listed(t, targets[i])) != names || len(aside(t, targets[i])) != []int{0, 2}[i] {
							wrong = append(wrong, "was silent, and not without effect")
						}
					}
				}
				if total%3 == 0 { // once more, without anything wrong
					again := options(s.src, targets...)
					if strings.Contains(out.String(), "left in place, because the source could not be read") {
						again.Policy = policy.Checksum // size and time are equal
					}
					for _, e := range runReported(t, again).bad() {
						// A bad file that could not be moved away has the size and time of the source's.
						require.Equal(t, event.Conflict, e.Kind, "%s: %v", s.fail, e)
						require.Contains(t, out.String(), e.Path, "it was reported before")
						again.Policy = policy.Checksum
					}
					mustRun(t, again)
					for _, target := range targets {
						require.Len(t, listed(t, target), len(s.files), "%s", s.fail)
						requireWhole(t, target, s.files)
						require.NoDirExists(t, filepath.Join(target, resume.JournalName("")))
					}
				}
				if len(wrong) > 0 {
					t.Errorf("%s fails with %v:\n  %s\nreported:\n%s", s.fail, err, strings.Join(wrong, "\n  "), out)
				}
				treetest.Remove(t, filepath.Dir(targets[0]))
			}
		}
	}
	t.Logf("%d runs, %d silent without effect", total, silent)
	require.Less(t, silent, total/10)
}
