//go:build linux

package model

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// usualHistories is the number of histories without SEALIFT_HISTORIES.
const usualHistories = 2000

// clockTick is longer than the granularity of the times that a kernel gives to changes.
const clockTick = 10 * time.Millisecond

// TestModel compares the program with the model in random histories. History number N is drawn from
// the seed N, and by default the numbers are the same in each run.
//
// SEALIFT_HISTORIES=N judges N histories that no earlier run had. SEALIFT_HISTORY=N judges history number N alone.
func TestModel(t *testing.T) {
	first, count := uint64(0), uint64(usualHistories)
	if testing.Short() {
		count /= 20
	}
	if given, err := strconv.ParseUint(os.Getenv("SEALIFT_HISTORIES"), 10, 64); err == nil {
		first, count = uint64(time.Now().UnixMilli()), given
		t.Logf("histories %d to %d", first, first+count-1)
	}
	if given, err := strconv.ParseUint(os.Getenv("SEALIFT_HISTORY"), 10, 64); err == nil {
		first, count = given, 1
	}
	top := treetest.MemoryDir(t)
	t.Setenv("TMPDIR", top)
	var next atomic.Uint64
	t.Run("shards", func(t *testing.T) {
		for shard := range 2 {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(top, fmt.Sprint("shard", shard))
				for n := next.Add(1) - 1; n < count && !t.Failed(); n = next.Add(1) - 1 {
					check(t, dir, first+n)
				}
			})
		}
	})
}

// check judges one history. It reports the shortest one with a difference that it finds.
func check(t *testing.T, dir string, seed uint64) {
	h := drawHistory(seed)
	found := h.judge(t, dir)
	if found == "" {
		return
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		shorter, difference := h.shorten(t, dir)
		if difference == "" {
			break
		}
		h, found = shorter, difference
	}
	t.Errorf("history %d (SEALIFT_HISTORY=%d judges it alone), shortened:\n%s%s", seed, seed, h, found)
}

// judge runs a history and returns the first difference between the program and the model, "" if there is none.
func (h history) judge(t *testing.T, top string) string {
	treetest.Remove(t, top)
	if err := os.MkdirAll(filepath.Join(top, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	now := state{src: tree{}}
	for i := range now.dsts {
		now.dsts[i].tree = tree{}
	}
	for i, s := range h {
		want := now.clone()
		for _, e := range s.edits {
			e.apply(&want)
		}
		if err := want.write(top, now); err != nil {
			t.Fatalf("%s\nstep %d: %v", h, i, err)
		}
		now = want
		if n := now.src[s.command.single]; s.command.single != "" && (n == nil || n.kind != file) {
			continue
		}
		times := 1
		if s.repeat {
			times = 2
		}
		for n := range times {
			kill := s.kill
			if n > 0 {
				kill = 0
			}
			after, resumes, found := s.command.judge(t, top, now, kill, s.fault)
			if len(found) > 0 {
				return fmt.Sprintf("step %d, run %d:\n\t%s\nbefore:\n%s", i, n, strings.Join(found, "\n\t"), now)
			}
			if resumes {
				return ""
			}
			now = after
		}
	}
	return ""
}

// write makes on disk what edits have changed.
func (s state) write(top string, old state) error {
	if err := s.src.write(filepath.Join(top, "src"), old.src); err != nil {
		return err
	}
	for i, d := range s.dsts {
		at := filepath.Join(top, dstNames[i])
		if d.exists && !old.dsts[i].exists {
			if err := os.Mkdir(at, 0o755); err != nil {
				return err
			}
		}
		if !d.exists {
			continue
		}
		if err := d.tree.write(at, old.dsts[i].tree); err != nil {
			return err
		}
	}
	return nil
}

// forgetDirTimes makes the times of all directories at the destinations unpredicted.
func (s state) forgetDirTimes() {
	for _, d := range s.dsts {
		for _, n := range d.tree {
			if n.kind == dir {
				n.mtime = anyTime
			}
		}
	}
}

// hasLists reports whether the source has a file with the name of a manifest.
func (s state) hasLists() bool {
	for q := range s.src {
		if manifestHash(q) >= 0 {
			return true
		}
	}
	return false
}

// bringsSignature reports whether the source has an entry that makes a manifest of a destination signed. The
// manifest is then one of Sealift's own only until the entry is copied.
func (s state) bringsSignature() bool {
	for q := range s.src {
		for _, d := range s.dsts {
			stem, _, _ := strings.Cut(strings.TrimPrefix(q, "sealift."), ".")
			if name := q[:len(q)-len(strings.TrimPrefix(q, "sealift."))] + stem; name != q && !strings.Contains(q, "/") && d.tree[name] != nil {
				return true
			}
		}
	}
	return false
}

// judge runs a command in a state and returns the state after it, and the differences. resumes reports whether a
// journal is left, so that the next run compares more than the model knows.
func (c command) judge(t *testing.T, top string, before state, kill int, fault bool) (after state, resumes bool, found []string) {
	read := func() (s state, journals [2]bool) {
		s, journals, err := readState(top)
		if err != nil {
			t.Fatal(err)
		}
		return s, journals
	}
	label := func(prefix string, list, events []string) []string {
		if len(list) == 0 {
			return nil
		}
		return append([]string{prefix + ":"}, append(list, "reported:\n\t\t"+strings.Join(events, "\n\t\t"))...)
	}

	r, err := c.run(top, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	dry := predict(before, c, true)
	found = dry.compare(r)
	now, _ := read()
	found = append(found, before.diff(now)...)
	if len(found) > 0 {
		return now, false, label("dry run", found, r.events)
	}

	f := predict(before, c, false)
	// An entry of the source can take a name that its next run uses for the manifest.
	second := predict(f.after, c, false)
	renames := !slices.Equal(second.names, f.names) || second.exit() != f.exit()                                                               // a manifest that is removed can have been in the way
	if renames || before.bringsSignature() || f.refused || f.rechecks || fault && (c.verify > 0 || f.others || f.joins || before.hasLists()) { // a file that cannot be read is set aside or replaced, and a manifest not checked
		kill = 0
	}
	if kill > 0 {
		time.Sleep(clockTick) // edits are older than the run
		c.killed(top, kill, fault)
		if fault && c.policy == policyNever {
			f.after.forgetDirTimes() // the second run creates an entry that failed in a directory that was complete
		}
	}
	if r, err = c.run(top, nil, false); err != nil {
		t.Fatal(err)
	}
	after, journals := read()
	if kill == 0 {
		found = f.compare(r)
	} else if r.exit != f.exit() {
		found = append(found, fmt.Sprintf("killed at %d and repeated: exit code: want %d, got %d (%s)", kill, f.exit(), r.exit, r.refused))
	}
	found = append(found, f.after.diff(after)...)
	for i := range after.dsts {
		after.dsts[i].markers = f.after.dsts[i].markers
	}
	for i, left := range journals {
		resumes = resumes || left
		if left && (f.exit() == 0 || f.exit() == 4) {
			found = append(found, dstNames[i]+": a journal is left")
		}
	}
	return after, resumes, label("run", found, r.events)
}

// shorten returns a shorter history with a difference, and that difference, "" if it finds none.
func (h history) shorten(t *testing.T, dir string) (history, string) {
	try := func(change func(history) history) (history, string) {
		g := change(h.clone())
		return g, g.judge(t, dir)
	}
	var changes []func(history) history
	for i := range h {
		changes = append(changes, func(g history) history { return append(g[:i], g[i+1:]...) })
	}
	for i := range h {
		for size := len(h[i].edits); size > 0; size /= 2 {
			for at := 0; at+size <= len(h[i].edits); at += size {
				changes = append(changes, func(g history) history {
					g[i].edits = append(g[i].edits[:at], g[i].edits[at+size:]...)
					return g
				})
			}
		}
		simpler := func(set func(*step)) {
			changes = append(changes, func(g history) history { set(&g[i]); return g })
		}
		c := h[i].command
		if h[i].kill > 0 {
			simpler(func(s *step) { s.kill = 0 })
		}
		if h[i].repeat {
			simpler(func(s *step) { s.repeat = false })
		}
		if c.dsts > 1 {
			simpler(func(s *step) { s.command.dsts = 1 })
		}
		if c.verify > 0 {
			simpler(func(s *step) { s.command.verify-- })
		}
		if c.backup != "" {
			simpler(func(s *step) { s.command.backup = "" })
		}
		if c.manifest != "" {
			simpler(func(s *step) { s.command.manifest = "" })
		}
		if len(c.hashes) > 1 {
			simpler(func(s *step) { s.command.hashes = s.command.hashes[:1] })
		}
		for k := range c.rules {
			simpler(func(s *step) { s.command.rules = append(s.command.rules[:k:k], s.command.rules[k+1:]...) })
		}
		if c.policy != policyDefault {
			simpler(func(s *step) { s.command.policy = policyDefault })
		}
	}
	for _, change := range changes {
		if g, found := try(change); found != "" {
			return g, found
		}
	}
	return nil, ""
}

func (h history) clone() history {
	g := make(history, len(h))
	for i, s := range h {
		s.edits = append([]edit(nil), s.edits...)
		s.command.rules = append([]rule(nil), s.command.rules...)
		g[i] = s
	}
	return g
}
