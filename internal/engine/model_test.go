//go:build linux

package engine_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// Users change trees and manifests between runs, and runs end in different ways. Each run has the
// outcome that the reference model predicts. predict has the rules. invariants has the rules for
// cases in which the contract leaves the outcome open.
//
// SEALIFT_HISTORIES sets the number of histories, and the test then draws new ones each time. By
// default it draws a small number of histories, the same ones each time.
func TestModel(t *testing.T) {
	checkHistories(t, 110, func(t *rapid.T, dir string) {
		h := newHistory(t, dir)
		for range between(t, "steps", 1, 6) {
			h.editSome(5)
			c := h.draw()
			switch how := number(t, "end", 100); {
			case how >= 99 && !testing.Short():
				h.interrupt(c, h.kill)
			case how >= 85:
				h.interrupt(c, h.stop)
			default:
				h.run(c, how >= 60)
			}
		}
	})
}

// A failing operation affects only the files for which the run reports it. The same command then
// completes the copy.
func TestModelFaults(t *testing.T) {
	checkHistories(t, 90, func(t *rapid.T, dir string) {
		h := newHistory(t, dir)
		if chance(t, "an earlier run", 2) {
			h.run(h.draw(), false)
			h.editSome(5)
		}
		c := h.draw()
		c.Verify = engine.VerifyOff // what cannot be read back would be moved away
		h.interrupt(c, h.fail)
	})
}

// checkNew checks the property usual times, or as often as SEALIFT_HISTORIES says. Each run of the
// test draws other values.
func checkNew(t *testing.T, usual int, property func(*rapid.T)) {
	if given, err := strconv.Atoi(os.Getenv("SEALIFT_HISTORIES")); err == nil {
		usual = given
	}
	setFlag(t, "rapid.checks", strconv.Itoa(usual))
	rapid.Check(t, property)
}

// checkHistories draws histories, each in a directory in memory. usual is their default number.
func checkHistories(t *testing.T, usual int, history func(t *rapid.T, dir string)) {
	if given, err := strconv.Atoi(os.Getenv("SEALIFT_HISTORIES")); err == nil {
		setFlag(t, "rapid.checks", strconv.Itoa(given)) // new ones each time
	} else {
		if testing.Short() {
			usual /= 10
		}
		drawSame(t, usual)
	}
	top := treetest.MemoryDir(t)
	t.Setenv("TMPDIR", top)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(top, "history")
		require.NoError(t, err)
		defer os.RemoveAll(dir) //nolint:errcheck // MemoryDir removes it at the end
		history(t, dir)
	})
}

// drawSame sets the number of checks of a test, which draws the same values in each run.
func drawSame(t *testing.T, checks int) {
	setFlag(t, "rapid.seed", "20261122")
	setFlag(t, "rapid.checks", strconv.Itoa(checks))
}

// setFlag sets a flag of the test binary until the test ends.
func setFlag(t *testing.T, name, value string) {
	before := flag.Lookup(name).Value.String()
	require.NoError(t, flag.Set(name, value))
	t.Cleanup(func() { require.NoError(t, flag.Set(name, before)) })
}

// A history is what happens to the places of a snapshot, step by step.
type history struct {
	t      *rapid.T
	dir    string
	now    snapshot
	origin provenance
	last   *command
	twins  int
}

func newHistory(t *rapid.T, dir string) *history {
	h := &history{t: t, dir: dir}
	s := drawSnapshot(t)
	require.NoError(t, s.write(h.state(), snapshot{}))
	h.read(len(s.places))
	h.origin = newProvenance(len(s.places))
	return h
}

// state is the directory of the snapshot.
func (h *history) state() string { return filepath.Join(h.dir, "state") }

func (h *history) read(places int) {
	var err error
	h.now, err = readSnapshot(h.state(), places)
	require.NoError(h.t, err)
}

// editSome makes at most most changes between two runs.
func (h *history) editSome(most int) {
	want := h.now.clone()
	for range between(h.t, "edits", 0, most) {
		want.edit(h.t)
	}
	require.NoError(h.t, want.write(h.state(), h.now))
	h.read(len(h.now.places))
	require.Equal(h.t, want, h.now, "the trees are not what the edits should have made")
}

// draw draws a command. It often repeats the previous one.
func (h *history) draw() command {
	if h.last != nil && chance(h.t, "the same", 3) {
		return *h.last
	}
	c := drawCommand(h.t, len(h.now.places))
	h.last = &c
	return c
}

// run runs a command to its end and judges it. If twin is true, it also checks that the
// outcome does not depend on the number of workers.
func (h *history) run(c command, twin bool) {
	before := h.now
	f := predict(before, c)
	h.origin.learnLines(before)
	o, _, err := c.run(context.Background(), nil, h.state())
	require.NoError(h.t, err)
	h.observe(&o, c)
	broken := append(invariants(before, c, o, h.origin), f.compare(o, c)...)
	if twin && before.settled() {
		broken = append(broken, h.compareTwin(before, c, o)...)
	}
	h.judge(before, c, o, broken)
}

// settled reports whether the snapshot has no leftovers of an interrupted run.
func (s snapshot) settled() bool {
	return !slices.ContainsFunc(s.places, func(p place) bool { return len(p.tree.leftovers()) > 0 })
}

// observe reads what a run has left.
func (h *history) observe(o *observation, c command) {
	h.read(len(h.now.places))
	o.after = h.now
	h.origin.learnCopies(h.now, c)
}

// judge ends the history if the run has broken a rule.
func (h *history) judge(before snapshot, c command, o observation, broken []string) {
	if len(broken) > 0 {
		h.t.Fatalf("%s\ncommand: %+v\nreported, exit code %d: %s\nbefore:\n%s\nafter:\n%s", strings.Join(broken, "\n"), c,
			o.exit(), strings.Join(o.events, "\n\t"), before, h.now)
	}
}

// compareTwin runs a command once more from the same snapshot with another number of
// workers, and says how the outcome differs.
func (h *history) compareTwin(before snapshot, c command, first observation) (broken []string) {
	h.twins++
	dir := filepath.Join(h.dir, fmt.Sprint("twin", h.twins))
	require.NoError(h.t, before.write(dir, snapshot{}))
	c.Workers = 5 - c.Workers
	o, _, err := c.run(context.Background(), nil, dir)
	require.NoError(h.t, err)
	o.after, err = readSnapshot(dir, len(before.places))
	require.NoError(h.t, err)
	want := forecast{
		after: first.after.clone(), refused: first.refused, conflicts: first.conflicts, mismatches: first.mismatches,
	}
	for i, p := range want.after.places {
		for q, n := range p.tree {
			if _, isName := c.isManifestName(q); isName && before.places[i].tree[q] != n && before.source[q] != n {
				n.mtime = anyTime
				p.tree[q] = n
			}
		}
		want.after.places[i].outside.mtime = anyTime
	}
	if first.errors == 0 {
		broken = want.compare(o, c)
	}
	if len(broken) > 0 {
		broken = append(broken, fmt.Sprintf("that is with %d workers and not with %d", c.Workers, 5-c.Workers))
	}
	return broken
}

// clockTick is longer than the granularity of the times that a kernel gives to changes.
const clockTick = 10 * time.Millisecond

// An ending runs a command and interrupts it. If the run ended before the interruption, o has its
// reports; otherwise o is nil. The result exact is true if an interrupted run has written each
// manifest either completely or not at all.
type ending func(c command) (o *observation, exact bool)

// interrupt lets how interrupt a command, and then repeats the command.
func (h *history) interrupt(c command, how ending) {
	first := h.now
	f := predict(first, c)
	h.origin.learnLines(first)
	time.Sleep(clockTick) // every edit must be older than the run
	o, exact := how(c)
	if f.refused && !exact && !o.refused {
		f.doubt("the destination that must be refused was lost")
	}
	if o == nil {
		o = &observation{}
		h.observe(o, c)
		h.judge(first, c, *o, afterInterruption(first, c, f, h.now, exact, h.origin))
	} else if h.observe(o, c); o.exit() == 0 {
		h.judge(first, c, *o, append(invariants(first, c, *o, h.origin), f.compare(*o, c)...))
	} else {
		h.judge(first, c, *o, afterInterruption(first, c, f, h.now, exact, h.origin))
	}
	if chance(h.t, "not repeated", 4) {
		return
	}
	before := h.now
	h.origin.learnLines(before)
	again, _, err := c.run(context.Background(), nil, h.state())
	require.NoError(h.t, err)
	h.observe(&again, c)
	broken := invariants(before, c, again, h.origin)
	broken = append(broken, f.judgeRepetition(before, c, again)...)
	h.judge(first, c, again, broken)
}

// judgeRepetition returns what the repeated run has not repaired after an interrupted one.
func (f *forecast) judgeRepetition(left snapshot, c command, o observation) (broken []string) {
	now := predict(left.visible(), c)
	switch {
	case !f.repeatable(c):
	case o.refused && now.refused: // a file that the failed run listed can have a signature
	default:
		broken = f.repaired(o)
	}
	// The interrupted run may have copied the source's own manifest and not yet written its own.
	// Nothing distinguishes that file from a manifest of an earlier run. Only the invariants hold.
	if slices.ContainsFunc(f.results, func(r result) bool { return r.levels.highest != noLevel }) {
		return nil
	}
	return broken
}

// visible is the snapshot without what an interrupted run has left beside its files.
func (s snapshot) visible() snapshot {
	v := s.clone()
	for i := range v.places {
		v.places[i].tree = v.places[i].tree.visible()
	}
	return v
}

// repeatable reports whether a second run of the command must have the same result as the first
// one, wherever the first one was interrupted.
func (f *forecast) repeatable(c command) bool {
	if f.unsure != "" || f.crossed || c.Policy == engine.PolicyNever {
		return false
	}
	again := predict(f.after, c)
	if again.unsure != "" || again.exit() != f.exit() {
		return false
	}
	for i := range f.after.places {
		if len(again.differs(i, f.after.places[i])) > 0 {
			return false
		}
	}
	return true
}

// operations are more than a run of a history needs.
const operations = 400

// stop runs a command up to an operation.
func (h *history) stop(c command) (*observation, bool) {
	o, stopped, err := c.runUntil(h.state(), int64(number(h.t, "last operation", operations)))
	require.NoError(h.t, err)
	if stopped {
		return nil, true
	}
	return &o, true
}

// kill runs a command in a process that it kills at an operation.
func (h *history) kill(c command) (*observation, bool) {
	_, err := c.runKilled(h.state(), int64(number(h.t, "last operation", operations)))
	require.NoError(h.t, err)
	return nil, true
}

// fail runs a command in which operations fail.
func (h *history) fail(c command) (*observation, bool) {
	o, err := c.runFailing(h.state(), injectedFailure{
		First: 1 + int64(number(h.t, "first failure", operations)),
		Error: draw(h.t, "error", []syscall.Errno{unix.EIO, unix.ENOSPC}),
		All:   rapid.Bool().Draw(h.t, "all that follow"),
	})
	require.NoError(h.t, err)
	return &o, false
}

// String is the snapshot as a person reads it in a report.
func (s snapshot) String() string {
	var b strings.Builder
	show := func(where string, t tree) {
		for _, p := range t.visible().paths() {
			fmt.Fprintf(&b, "\t%s %q: %s\n", where, p, t[p])
		}
		if left := t.leftovers(); len(left) > 0 {
			fmt.Fprintf(&b, "\t%s leftovers: %q\n", where, left)
		}
	}
	show("source", s.source)
	show("single", s.single)
	for i, p := range s.places {
		if p.exists {
			fmt.Fprintf(&b, "\tdestination %d exists\n", i)
		}
		show(fmt.Sprintf("destination %d", i), p.tree)
		if p.outside.kind != absent {
			fmt.Fprintf(&b, "\toutside %d: %s\n", i, p.outside)
		}
	}
	return b.String()
}
