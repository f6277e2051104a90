package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

var (
	simulations    = flag.Int("simulations", 0, "schedules of TestSchedulesOfAttempts; 0 for a few")
	simulationSeed = flag.Uint64("simulation-seed", 0, "the first schedule; 0 for a random one")
)

// actor is a process that runs an attempt or a merge. It runs until it has used up its quota of file
// operations, and then stands still, as after SIGSTOP, until it gets more.
type actor struct {
	name string
	mu   sync.Mutex
	cond *sync.Cond
	left int // operations until it is stopped
	dead bool
	idle chan struct{} // receives when it is stopped or has ended
	over bool
	err  error
	bad  []event.Event
	// at is the operation before which it is stopped next, whatever the quota; nil for any.
	at func(fsys.Call) bool
}

// fault is the hook of the file system as the actor sees it.
func (a *actor) fault(c fsys.Call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at != nil && a.left > 0 && a.at(c) {
		a.at, a.left = nil, 0
	}
	for a.left <= 0 && !a.dead {
		select {
		case a.idle <- struct{}{}:
		default:
		}
		a.cond.Wait()
	}
	if a.dead {
		return errKilled
	}
	a.left--
	return nil
}

// resume lets the actor do some more operations, and waits until it is stopped again or has ended.
func (a *actor) resume(quota int, kill bool) {
	a.mu.Lock()
	a.left, a.dead = quota, a.dead || kill
	a.cond.Broadcast()
	a.mu.Unlock()
	a.await()
}

// await waits until the actor is stopped or has ended. Each of its goroutines reports that.
func (a *actor) await() {
	for stopped := false; !stopped; {
		<-a.idle
		a.mu.Lock()
		stopped = a.over || a.left <= 0 && !a.dead
		a.mu.Unlock()
	}
}

// simulation is one schedule: a plan, its attempts, and a source that may change meanwhile.
type simulation struct {
	*testing.T
	base, src, dst, plan string
	random               *rand.Rand
	opts                 Options
	shards               int
	actors               []*actor
	changed              bool                // the source has changed since the plan
	versions             map[string][]string // digests of the contents that a file of the source has had
	locks                func(c fsys.Call) error
	merged               map[string]string // snapshot of the destination after the merge
	log                  []string
}

// change gives files of the source other contents. Their times move on.
func (s *simulation) change() {
	s.changed = true
	for _, name := range []string{"a/0", "a/2", "b/1", "c", "large"} {
		if s.random.IntN(3) == 0 && len(s.versions[name]) > 0 {
			s.put(name, len(s.versions[name]))
		}
	}
}

// put writes a version of a file of the source.
func (s *simulation) put(name string, version int) {
	size := 40 + s.random.IntN(3*sweepBlock)
	if name == "large" {
		size = resume.LeastPartial + 3*resume.MarkEvery
	}
	content := treetest.Pattern(size, byte(len(name)+17*version))
	write(s.T, s.src, name, content, longAgo.Add(time.Duration(version)*time.Hour))
	s.versions[name] = append(s.versions[name], fmt.Sprintf("%x", sha256.Sum256(content)))
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{T: t, base: treetest.MemoryDir(t), random: rand.New(rand.NewPCG(seed, 1)), versions: map[string][]string{}, shards: 2}
	s.src, s.dst, s.plan = filepath.Join(s.base, "src"), filepath.Join(s.base, "dst"), filepath.Join(s.base, "plan")
	for _, name := range []string{"a/0", "a/1", "a/2", "a/3", "b/1", "b/d/2", "c"} {
		s.put(name, 0)
	}
	if s.random.IntN(12) == 0 {
		s.put("large", 0)
	}
	require.NoError(t, os.Link(filepath.Join(s.src, "a/1"), filepath.Join(s.src, "b/mate")))
	s.versions["b/mate"] = s.versions["a/1"]
	require.NoError(t, os.Symlink("../c", filepath.Join(s.src, "b/link")))
	require.NoError(t, os.Mkdir(filepath.Join(s.src, "empty"), 0o750))
	s.opts = sweepOptions(s.src, []string{s.dst}, []dest.SyncMode{dest.SyncNone, dest.SyncEnd, dest.SyncFile}[s.random.IntN(3)])
	s.opts.Workers = 1 + s.random.IntN(2)
	s.opts.Memory = 16 << 20
	s.opts.checkEvery = time.Millisecond
	s.opts.Policy = []policy.Policy{policy.Default, policy.Update, policy.Checksum, policy.Always}[s.random.IntN(4)]
	for _, where := range []string{s.dst, s.dst + "-single"} {
		for _, name := range []string{"a/0", "a/2", "b/1"} { // most are replaced
			write(t, where, name, []byte("older "+name), before.Add(-time.Hour))
		}
		require.NoError(t, os.Chtimes(filepath.Join(where, "a/0"), longAgo.Add(-time.Hour), longAgo.Add(-time.Hour)))
		require.NoError(t, os.Chtimes(filepath.Join(where, "a/2"), longAgo.Add(-time.Hour), longAgo.Add(-time.Hour)))
		require.NoError(t, os.Chtimes(filepath.Join(where, "b/1"), longAgo.Add(-time.Hour), longAgo.Add(-time.Hour)))
	}
	o := s.opts
	plan, err := Plan(t.Context(), &o, PlanOptions{Into: s.plan, Shards: s.shards}, &counters.Set{})
	require.NoError(t, err)
	require.NotNil(t, plan)
	s.chooseLocks()
	return s
}

// chooseLocks decides how the locks of the shards work in this schedule.
func (s *simulation) chooseLocks() {
	removeLocks := func() {
		for i := range s.shards {
			_ = os.Remove(filepath.Join(s.plan, fmt.Sprintf("work/%05d/lock", i)))
		}
	}
	switch kind := s.random.IntN(5); kind {
	case 0:
		s.note("locks are refused")
		s.locks = func(c fsys.Call) error {
			if c.Op == fsys.OpLock {
				return syscall.ENOTSUP
			}
			return nil
		}
	case 1:
		s.note("locks are always granted")
		s.locks = func(c fsys.Call) error {
			if c.Op == fsys.OpLock {
				removeLocks() // the next one is made on another file
			}
			return nil
		}
	case 2:
		s.note("locks are never released")
		for i := range s.shards {
			dir, err := fsys.OpenRoot(filepath.Join(s.plan, fmt.Sprintf("work/%05d", i)))
			require.NoError(s, err)
			s.Cleanup(dir.Close)
			lock, err := dir.Lock("lock")
			require.NoError(s, err)
			s.Cleanup(lock.Unlock)
		}
	case 3:
		s.note("locks are lost midway")
		var left atomic.Int64
		left.Store(int64(s.random.IntN(200)))
		s.locks = func(c fsys.Call) error {
			if left.Add(-1) == 0 && c.Op != fsys.OpLock {
				removeLocks()
			}
			return nil
		}
	}
}

func (s *simulation) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// start starts an actor, which does quota operations.
func (s *simulation) start(name string, quota int, at func(fsys.Call) bool, run func(*actor, *fsys.FS)) *actor {
	a := &actor{name: name, left: quota, idle: make(chan struct{}, 1), at: at}
	a.cond = sync.NewCond(&a.mu)
	s.actors = append(s.actors, a)
	sys := &fsys.FS{Fault: func(c fsys.Call) error {
		if err := a.fault(c); err != nil {
			return err
		}
		if s.locks != nil {
			return s.locks(c)
		}
		return nil
	}}
	go func() {
		run(a, sys)
		a.mu.Lock()
		a.over = true
		a.mu.Unlock()
		select {
		case a.idle <- struct{}{}:
		default:
		}
	}()
	a.await()
	return a
}

func (s *simulation) open(sys *fsys.FS) (*shard.Store, error) {
	dir, err := sys.OpenRoot(s.plan)
	if err != nil {
		return nil, err
	}
	s.Cleanup(dir.Close)
	return shard.Open(dir)
}

func (s *simulation) options(sys *fsys.FS, a *actor) *Options {
	o := in(sys, s.opts)
	o.Report = func(e event.Event) {
		if len((&runReport{events: []event.Event{e}}).bad()) > 0 {
			a.bad = append(a.bad, e)
		}
	}
	return &o
}

func (s *simulation) attempt(index, quota int, at func(fsys.Call) bool) *actor {
	return s.start(fmt.Sprint("attempt at ", index), quota, at, func(a *actor, sys *fsys.FS) {
		store, err := s.open(sys)
		if err == nil {
			_, err = RunShard(context.Background(), s.options(sys, a), store, index, shard.AttemptOptions{Patience: time.Millisecond, Poll: time.Millisecond}, &counters.Set{})
		}
		a.err = err
	})
}

func (s *simulation) merge(quota int) *actor {
	return s.start("merge", quota, nil, func(a *actor, sys *fsys.FS) {
		store, err := s.open(sys)
		if err == nil {
			var m *MergeSummary
			if m, err = Merge(context.Background(), &MergeOptions{Plan: store, Copy: s.options(sys, a)}, &counters.Set{}); err == nil && !m.Merged && !m.Already {
				err = errors.New("shards are not finished")
			}
		}
		a.err = err
	})
}

const unlimited = 1 << 30

// stops returns where an actor is stopped: before an operation that gives a name, in half of the cases.
func (s *simulation) stops() (quota int, at func(fsys.Call) bool) {
	switch s.random.IntN(4) {
	case 0:
		return unlimited, nil
	case 1:
		return 1 + s.random.IntN(700), nil
	case 2:
		if s.random.IntN(3) == 0 { // just before it finishes the shard
			return unlimited, func(c fsys.Call) bool { return c.Op == fsys.OpLink && strings.HasPrefix(c.Name, "finished-") }
		}
	}
	n := 1 + s.random.IntN(8)
	return unlimited, func(c fsys.Call) bool {
		if c.Op == fsys.OpRename || c.Op == fsys.OpLink && (c.Name == "" || strings.HasPrefix(c.Path, s.dst) || strings.HasPrefix(c.Name, "finished-")) {
			n--
		}
		return n == 0
	}
}

// step does a random thing.
func (s *simulation) step() {
	var stopped []*actor
	for _, a := range s.actors {
		if !a.over {
			stopped = append(stopped, a)
		}
	}
	switch action := s.random.IntN(10); {
	case action < 4 && len(stopped) < 5:
		index := s.random.IntN(s.shards)
		quota, at := s.stops()
		a := s.attempt(index, quota, at)
		s.note("%s begins, over %v, %v", a.name, a.over, a.err)
	case action < 7 && len(stopped) > 0:
		a := stopped[s.random.IntN(len(stopped))]
		quota, at := s.stops()
		a.mu.Lock()
		a.at = at
		a.mu.Unlock()
		a.resume(quota, false)
		s.note("%s goes on, over %v, %v", a.name, a.over, a.err)
	case action == 7 && len(stopped) > 0:
		a := stopped[s.random.IntN(len(stopped))]
		a.resume(unlimited, true)
		s.note("%s is killed, %v", a.name, a.err)
	case action == 8:
		s.change()
		s.note("the source changes")
	case action == 9:
		a := s.merge(unlimited)
		s.note("merge: %v", a.err)
		s.requireMerged()
	}
}

// finish ends the schedule with undisturbed attempts and a merge. Then the actors that stand still go
// on, and must not change anything.
func (s *simulation) finish() {
	for round := 0; ; round++ {
		require.Less(s, round, 4, "the shards are never finished")
		store, err := s.open(nil)
		require.NoError(s, err)
		p, err := store.Progress(s.Context())
		require.NoError(s, err)
		if len(p.ToRun()) == 0 {
			break
		}
		for _, i := range p.ToRun() {
			a := s.attempt(i, unlimited, nil)
			s.note("%s undisturbed: %v %v", a.name, a.err, a.bad)
			require.NoError(s, a.err)
		}
	}
	m := s.merge(unlimited)
	s.note("the last merge: %v %v", m.err, m.bad)
	require.NoError(s, m.err)
	for _, e := range m.bad {
		require.Equal(s, event.Warning, e.Kind, "%v", e)
	}
	s.requireMerged()
	for _, a := range s.actors {
		if !a.over {
			a.resume(unlimited, false)
			s.note("%s goes on late: %v", a.name, a.err)
			require.True(s, a.over)
		}
	}
	require.Equal(s, s.merged, snapshotOf(s.T, s.dst), "a late process has changed something")
}

// requireMerged checks the result of the merge that has ended the plan. After it, nothing changes but
// the times of directories in which a late process makes a temporary.
func (s *simulation) requireMerged() {
	store, err := s.open(nil)
	require.NoError(s, err)
	end, err := store.End()
	require.NoError(s, err)
	if end == nil || s.merged != nil {
		return
	}
	require.NoDirExists(s, filepath.Join(s.dst, ".sealift-journal"))
	s.requireManifest()
	if !s.changed {
		s.requireSingle()
	}
	s.merged = snapshotOf(s.T, s.dst)
}

// requireManifest demands that the manifest lists each file of the source with the content that is
// there, which is one that the source has had.
func (s *simulation) requireManifest() {
	text, err := os.ReadFile(filepath.Join(s.dst, "SHA256SUMS"))
	require.NoError(s, err)
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = digest
	}
	for name, versions := range s.versions {
		content, err := os.ReadFile(filepath.Join(s.dst, name))
		require.NoError(s, err)
		require.Equal(s, listed[name], fmt.Sprintf("%x", sha256.Sum256(content)), "the line of %s is wrong", name)
		require.Contains(s, versions, listed[name], name)
	}
	require.Len(s, listed, len(s.versions))
	require.NoError(s, filepath.WalkDir(s.dst, func(path string, d os.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), fsys.Reserved) {
			s.Errorf("a leftover: %s", path)
		}
		return err
	}))
}

// requireSingle demands that the result is that of one copy.
func (s *simulation) requireSingle() {
	single := s.dst + "-single"
	o := s.opts
	o.Targets = []string{single}
	out := runReported(s.T, o)
	require.Empty(s, out.bad())
	treetest.Compare(s.T, single, s.dst, treetest.Options{Ignore: []string{"SHA256SUMS"}})
	want, err := os.ReadFile(filepath.Join(single, "SHA256SUMS"))
	require.NoError(s, err)
	got, err := os.ReadFile(filepath.Join(s.dst, "SHA256SUMS"))
	require.NoError(s, err)
	require.Equal(s, string(want), string(got))
}

// Attempts at the shards of a plan are stopped, continued, killed and started several times, and the
// source changes meanwhile, while locks work, or do not. The program's own code runs on a file system
// whose operations the schedule stops. Each schedule ends with attempts that nothing disturbs, and a
// merge. The result is then that of one copy, and processes that go on late change nothing.
func TestSchedulesOfAttempts(t *testing.T) {
	n := *simulations
	if n == 0 {
		if n = 150; testing.Short() {
			n = 30
		}
	}
	first := *simulationSeed
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	for i := range n {
		seed := first + uint64(i)
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSimulation(t, seed)
			defer func() {
				for _, a := range s.actors {
					if !a.over {
						a.resume(unlimited, true)
					}
				}
				if t.Failed() {
					t.Log(strings.Join(s.log, "\n"))
				}
			}()
			for range 3 + s.random.IntN(12) {
				s.step()
			}
			s.finish()
		})
		if !ok && *simulations == 0 {
			return
		}
	}
}
