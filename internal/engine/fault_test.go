//go:build linux

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The sweep lets each operation of a run fail, in one run for each operation. It checks that the
// run ends and reports the failure. No file with a final name may be incomplete, and no manifest
// line may be wrong. A second run must complete the copy.

// sweepFiles is the content of the source's regular files.
func sweepFiles() map[string][]byte {
	return map[string][]byte{
		"inline":           treetest.Pattern(100, 1),
		"empty":            {},
		"big":              treetest.Pattern(bigSize, 2),
		"d/replaced":       treetest.Pattern(200, 3),
		"d/replaced-big":   treetest.Pattern(bigSize, 4),
		"d/same":           treetest.Pattern(300, 5), // equal content, other time: the run compares it
		"d/differs":        treetest.Pattern(310, 6), // same size, older, other content
		"d/listed":         treetest.Pattern(320, 7), // up to date and in the previous manifest
		"d/unproven":       treetest.Pattern(330, 8), // up to date, but in no manifest
		"link1":            treetest.Pattern(400, 9),
		"m/link2":          treetest.Pattern(400, 9),
		"z/link3":          treetest.Pattern(400, 9),
		"d/old-link1":      treetest.Pattern(410, 10), // linked at the destination already
		"d/old-link2":      treetest.Pattern(410, 10),
		"attributes":       treetest.Pattern(420, 11),
		"ro/in":            treetest.Pattern(430, 12),
		"sparse":           append(make([]byte, 8*sweepBlock), treetest.Pattern(sweepBlock, 13)...),
		"d/attributes-old": treetest.Pattern(440, 14),
	}
}

// oldFiles is the content of the destination's files before the run; nil values mean equal.
func oldFiles() map[string][]byte {
	return map[string][]byte{
		"d/replaced":       treetest.Pattern(150, 23),
		"d/replaced-big":   treetest.Pattern(bigSize-700, 24),
		"d/same":           nil,
		"d/differs":        treetest.Pattern(310, 26),
		"d/listed":         nil,
		"d/unproven":       nil,
		"d/old-link1":      nil,
		"d/attributes-old": nil,
		"extra/kept":       treetest.Pattern(77, 40), // not in the source
	}
}

func makeSweepSource(t require.TestingT, root string) {
	for name, content := range sweepFiles() {
		if strings.Contains(name, "link2") || name == "z/link3" {
			continue
		}
		write(t, root, name, content, since)
	}
	for _, dir := range []string{"m", "z", "hollow"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.Link(filepath.Join(root, "link1"), filepath.Join(root, "m/link2")))
	require.NoError(t, os.Link(filepath.Join(root, "link1"), filepath.Join(root, "z/link3")))
	require.NoError(t, os.Link(filepath.Join(root, "d/old-link1"), filepath.Join(root, "d/old-link2")))
	sparse, err := os.OpenFile(filepath.Join(root, "sparse"), os.O_RDWR|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = sparse.WriteAt(treetest.Pattern(sweepBlock, 13), 8*sweepBlock)
	require.NoError(t, errors.Join(err, sparse.Close()))
	require.NoError(t, os.Chtimes(filepath.Join(root, "sparse"), since, since))
	setAttribute(t, filepath.Join(root, "attributes"), "user.sealift", "one")
	setAttribute(t, filepath.Join(root, "d/attributes-old"), "user.sealift", "new")
	setAttribute(t, filepath.Join(root, "m"), "user.sealift", "dir")
	require.NoError(t, os.Symlink("d/replaced", filepath.Join(root, "symlink")))
	require.NoError(t, os.Symlink("new target", filepath.Join(root, "d/symlink")))
	require.NoError(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o620))
	for _, dir := range []string{"d", "m", "z", "hollow", "ro"} {
		require.NoError(t, os.Chtimes(filepath.Join(root, dir), before, before))
	}
	require.NoError(t, os.Chmod(filepath.Join(root, "ro"), 0o555))
}

// makeSweepTarget makes a destination with the files of an earlier run and changes of a user. The
// caller must set the time of its manifest to a later one than that of its files.
func makeSweepTarget(t require.TestingT, root string) {
	require.NoError(t, os.Mkdir(root, 0o755))
	files := sweepFiles()
	var lines []byte
	olds := oldFiles()
	for _, name := range slices.Sorted(maps.Keys(olds)) {
		content, mtime := olds[name], longAgo
		if content == nil {
			content = files[name]
			if name != "d/same" {
				mtime = since
			}
		}
		write(t, root, name, content, mtime)
		if name != "d/unproven" {
			set := hash.NewSet([]hash.Algorithm{hash.SHA256})
			set.Write(content)
			lines = fmt.Appendf(lines, "%x  %s\n", set.Digests()[0], name)
		}
	}
	require.NoError(t, os.Link(filepath.Join(root, "d/old-link1"), filepath.Join(root, "d/old-link2")))
	setAttribute(t, filepath.Join(root, "d/attributes-old"), "user.sealift", "old")
	setAttribute(t, filepath.Join(root, "d/attributes-old"), "user.surplus", "x")
	require.NoError(t, os.Symlink("old target", filepath.Join(root, "d/symlink")))
	require.NoError(t, os.Lchown(filepath.Join(root, "d/symlink"), os.Geteuid(), os.Getegid()))
	ts := []unix.Timespec{unix.NsecToTimespec(longAgo.UnixNano()), unix.NsecToTimespec(longAgo.UnixNano())}
	require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(root, "d/symlink"), ts, unix.AT_SYMLINK_NOFOLLOW))
	require.NoError(t, os.WriteFile(filepath.Join(root, "SHA256SUMS"), lines, 0o644))
}

// unmarked returns the destinations that the run has changed and that differ from the source, if
// neither a marker nor a journal shows that.
func (o *runReport) unmarked(t require.TestingT, source map[string]node, targets []string) (list []string) {
	for i, target := range targets {
		if o.summary == nil || o.summary.Targets[i].Lost != nil && len(o.summary.Targets[i].Manifests) == 0 {
			continue // refused, or dropped: perhaps before the first write
		}
		missing := gaps(t, source, target)
		said := func(gap string) bool { return strings.HasPrefix(gap, "left behind") }
		if i == 1 {
			missing = slices.DeleteFunc(missing, func(gap string) bool { return strings.HasSuffix(gap, "extra/kept") })
		}
		if len(missing) > 0 && !slices.ContainsFunc(missing, said) {
			list = append(list, fmt.Sprintf("destination %d: incomplete, and nothing there says so: %s", i+1, missing))
		}
	}
	return list
}

// complaints returns what no failure excuses at a destination: files with neither the old nor the
// new content, wrong manifest lines, temporaries.
func complaints(t require.TestingT, root string) (list []string) {
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	files, olds := sweepFiles(), oldFiles()
	nodes := look(t, root)
	for path, n := range nodes {
		if strings.HasPrefix(filepath.Base(path), fsys.Reserved) && strings.HasSuffix(path, ".tmp") {
			complain("a temporary is left: %s", path)
			continue
		}
		if !n.mode.IsRegular() || path == "SHA256SUMS" || path == srcMarker || strings.HasPrefix(path, fsys.Reserved) {
			continue
		}
		content, known := files[path]
		old, hadOld := olds[path]
		if hadOld && old == nil {
			old = content
		}
		switch {
		case !known && !hadOld:
			complain("a file of unknown origin: %s", path)
		case known && n.content == string(content), hadOld && n.content == string(old):
		default:
			complain("neither the old nor the new content: %s, %d bytes", path, len(n.content))
		}
	}
	if n, ok := nodes["SHA256SUMS"]; ok {
		for path, digest := range readManifest(t, n.content) {
			have, ok := nodes[path]
			if !ok || !have.mode.IsRegular() {
				complain("the manifest lists what does not stand: %s", path)
			} else if digest != sha(have.content) {
				complain("the manifest is wrong about %s", path)
			}
		}
	}
	return list
}

// gaps returns what is missing or different at a destination after a run that has reported no
// error.
func gaps(t require.TestingT, source map[string]node, root string) (list []string) {
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	nodes := look(t, root)
	want := map[string]string{"extra/kept": sha(string(oldFiles()["extra/kept"]))}
	for path, s := range source {
		if path == "." {
			continue
		}
		if s.mode.IsRegular() {
			want[path] = sha(s.content)
		}
		n, ok := nodes[path]
		switch {
		case !ok:
			complain("missing: %s", path)
		case n.mode != s.mode:
			complain("mode of %s: %v, want %v", path, n.mode, s.mode)
		case !n.mtime.Equal(s.mtime):
			complain("time of %s: %v, want %v", path, n.mtime, s.mtime)
		case n.content != s.content:
			complain("content of %s", path)
		case n.links != s.links:
			complain("links of %s: %d, want %d", path, n.links, s.links)
		case n.attrs != s.attrs:
			complain("attributes of %s: %q, want %q", path, n.attrs, s.attrs)
		}
	}
	for path := range nodes {
		if strings.Contains(path, fsys.Reserved) || path == srcMarker {
			complain("left behind: %s", path)
		}
	}
	n, ok := nodes["SHA256SUMS"]
	if !ok {
		return append(list, "no manifest")
	}
	have := readManifest(t, n.content)
	for path, digest := range want {
		if have[path] != digest {
			complain("manifest lacks, or is wrong about, %s", path)
		}
	}
	for path := range have {
		if _, ok := want[path]; !ok {
			complain("manifest lists %s", path)
		}
	}
	return list
}

// TestFaultSweep lets each operation fail with one error, and repeats the run with one policy. If a
// run has many operations of one kind, each dest.SyncMode takes one in eight of them. SEALIFT_SWEEP=all
// takes 20 times as long: it combines all operations and errors, both modes and both policies. It
// also checks that each entry of mayBeSilent is needed.
func TestFaultSweep(t *testing.T) {
	t.Parallel()
	excused := map[string]bool{}
	for _, sync := range []dest.SyncMode{dest.SyncEnd, dest.SyncFile} {
		t.Run(sync.String(), func(t *testing.T) { sweep(t, sync, excused) })
	}
	for function := range mayBeSilent {
		if everyInstant() && !excused[function] && !seldomSilent[function] {
			t.Errorf("mayBeSilent has %s, in which no failure was silent", function)
		}
	}
}

// sweep adds to excused the functions of mayBeSilent in which a failure was silent.
func sweep(t *testing.T, sync dest.SyncMode, excused map[string]bool) {
	dir := treetest.MemoryDir(t)
	src := filepath.Join(dir, "src")
	makeSweepSource(t, src)
	source := look(t, src)
	number := 0
	var ready []string // destinations; 100 are made at once, to wait for the clock only once
	t.Cleanup(func() {
		for _, target := range ready {
			treetest.Remove(t, target)
		}
	})
	fresh := func() []string {
		if len(ready) == 0 {
			for range 100 {
				number++
				ready = append(ready, filepath.Join(dir, fmt.Sprint(number)))
				makeSweepTarget(t, ready[len(ready)-1])
			}
			time.Sleep(20 * time.Millisecond) // some ticks of the clock that stamps files
			for _, target := range ready {
				now := time.Now()
				require.NoError(t, os.Chtimes(filepath.Join(target, "SHA256SUMS"), now, now))
			}
			time.Sleep(20 * time.Millisecond)
		}
		first := ready[0]
		ready = ready[1:]
		return []string{first, first + "-new"}
	}
	remove := func(targets []string) {
		for _, target := range targets {
			treetest.Remove(t, target)
		}
	}
	gapsOf := func(targets []string) (list []string) {
		for i, target := range targets {
			for _, g := range gaps(t, source, target) {
				if i == 1 && strings.HasSuffix(g, "extra/kept") {
					continue
				}
				list = append(list, fmt.Sprintf("destination %d: %s", i+1, g))
			}
		}
		return list
	}

	// Count the operations that can fail in two clean runs, because one run may have fewer.
	counts := map[fsys.Op]int{}
	for range 2 {
		var count injector
		targets := fresh()
		out := watched(t, stopClock(in(count.fs(), sweepOptions(src, targets, sync))))
		require.NoError(t, out.err)
		require.False(t, out.anything(), "a clean run:\n%s", out)
		require.Empty(t, gapsOf(targets), "a clean run")
		remove(targets)
		for op, n := range count.counts {
			counts[op] = max(counts[op], n)
		}
	}

	total, silent, missed, every, chosen := 0, 0, 0, everyInstant(), 0
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		for nth := range counts[op] {
			if !every && counts[op] > 10 && nth%12 != 6*(int(sync)%2)+nth/12%6 {
				continue // the other dest.SyncMode has nearly the same operations
			}
			chosen++
			for turn, after := range []policy.Policy{policy.Default, policy.Always} {
				if !every && turn != chosen%2 {
					continue
				}
				failures := sweepErrors(op, nth+turn)
				if !every {
					which := chosen / 2 % len(failures)
					failures = failures[which : which+1]
				}
				for _, err := range failures {
					total++
					inj := &injector{fail: operation{op, nth}, err: err}
					targets := fresh()
					out := watched(t, stopClock(in(inj.fs(), sweepOptions(src, targets, sync))))
					var wrong []string
					for i, target := range targets {
						for _, c := range complaints(t, target) {
							wrong = append(wrong, fmt.Sprintf("destination %d: %s", i+1, c))
						}
					}
					why := ""
					if inj.hit {
						why = excuse(inj.stack)
					}
					var refused *failure.RefusedError
					switch {
					case !inj.hit: // one of the last of its kind, which this run has not needed
						missed++
						wrong = append(wrong, gapsOf(targets)...)
					case out.panicked != "":
						wrong = append(wrong, "panic: "+out.panicked)
					case why != "" && !out.anything():
						silent++
						excused[why] = true
						for _, g := range gapsOf(targets) {
							wrong = append(wrong, "was silent; "+g)
						}
					case !out.anything():
						wrong = append(wrong, "nothing was reported")
					case errors.As(out.err, &refused):
					case out.err != nil:
						wrong = append(wrong, "Run's error: "+out.err.Error())
					case out.summary.Errors == 0 && out.summary.Warnings > 0 && strings.Contains(inj.stack, "engine.(*run).warnStale("):
						// The copy is complete. The run could not check whether other manifests are out of date.
					case out.summary.Errors == 0 && out.summary.Warnings > 0 && strings.Contains(inj.stack, "engine.(*comparison).read("):
						wrong = append(wrong, gapsOf(targets)...) // the file that could not be read was replaced
					case out.summary.Errors == 0:
						wrong = append(wrong, "the exit code would be 0")
					}
					if out.panicked == "" {
						wrong = append(wrong, out.unmarked(t, source, targets)...)
					}
					if out.panicked == "" { // once more, without a fault
						again := sweepOptions(src, targets, sync)
						again.Policy = after
						second := watched(t, again)
						if second.err != nil || second.anything() {
							wrong = append(wrong, "the next run: "+second.String())
						}
						for _, g := range gapsOf(targets) {
							wrong = append(wrong, fmt.Sprintf("after the next run (%s): %s", after, g))
						}
					}
					if len(wrong) > 0 {
						t.Errorf("%s %q fails with %v:\n  %s\nreported:\n%s%s", inj.fail, inj.name, err,
							strings.Join(wrong, "\n  "), out, ourFrames(inj.stack))
					}
					remove(targets)
				}
			}
		}
	}
	t.Logf("%d runs; %d silent with a fallback, %d did not come to their operation", total, silent, missed)
	require.Less(t, missed, total/50+5)
}

// sweepErrors returns the errors that an operation fails with. Operations that need space get EIO
// and ENOSPC. Others get one error of a list, a different one for each turn. The lists have no
// errors that refuse metadata, because these cause only a warning.
func sweepErrors(op fsys.Op, turn int) []error {
	others := []error{syscall.EIO}
	switch op {
	case fsys.OpWrite, fsys.OpCreate, fsys.OpLink, fsys.OpRename, fsys.OpMkdir:
		return []error{syscall.EIO, syscall.ENOSPC}
	case fsys.OpOpen, fsys.OpOpenDir:
		others = []error{syscall.EIO, syscall.EMFILE, syscall.ESTALE}
	case fsys.OpRead, fsys.OpList, fsys.OpStat, fsys.OpReadlink, fsys.OpGetXattr:
		others = []error{syscall.EIO, syscall.ENOMEM, syscall.ESTALE}
	case fsys.OpSync, fsys.OpSyncFS, fsys.OpSyncDrive, fsys.OpWriteback, fsys.OpCloseFile, fsys.OpTruncate:
		others = []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT}
	case fsys.OpSymlink, fsys.OpMknod, fsys.OpRemove, fsys.OpChown, fsys.OpChmod, fsys.OpTimes, fsys.OpLock:
		others = []error{syscall.EIO, syscall.EROFS, syscall.ENOMEM}
	}
	return others[turn%len(others):][:1]
}
