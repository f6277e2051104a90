package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// archive is a tree with a manifest, a state, and a clock that moves with each read.
type archive struct {
	*testing.T
	dir, state string
	clock      atomic.Int64  // true time in nanoseconds since 1970
	wrong      time.Duration // error of the clock that the scrubs see
	perRead    time.Duration
	onRead     func(path string)
}

func newArchive(t *testing.T, files int) *archive {
	a := &archive{T: t, dir: treetest.MemoryDir(t), state: filepath.Join(treetest.MemoryDir(t), "state"), perRead: 10 * time.Minute, onRead: func(string) {}}
	a.clock.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	lines := ""
	for i := range files {
		name := fmt.Sprintf("f%02d", i)
		a.write(name, a.content(name))
		lines += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(a.content(name))), name)
	}
	a.write("SHA256SUMS", lines)
	return a
}

func (a *archive) now() time.Time { return time.Unix(0, a.clock.Load()).UTC() }

func (a *archive) pass(d time.Duration) { a.clock.Add(int64(d)) }

// content is the listed content of a file.
func (a *archive) content(name string) string { return strings.Repeat(name, 10) }

func (a *archive) write(name, content string) {
	require.NoError(a, os.WriteFile(filepath.Join(a.dir, name), []byte(content), 0o600))
	a.touch(name, a.now())
}

func (a *archive) touch(name string, mtime time.Time) {
	require.NoError(a, os.Chtimes(filepath.Join(a.dir, name), mtime, mtime))
}

// scrub runs one scrub, and returns the verdicts by path.
func (a *archive) scrub(ctx context.Context, o ScrubOptions) (map[string]Verdict, *ScrubSummary, error) {
	verdicts := map[string]Verdict{}
	o.Dir, o.State, o.Verbose = a.dir, a.state, true
	if o.Workers == 0 {
		o.Workers = 1
	}
	o.Now = func() time.Time { return a.now().Add(a.wrong) }
	o.FS = &fsys.FS{Fault: func(c fsys.Call) error {
		if name := filepath.Base(c.Path); c.Op == fsys.OpRead && name[0] == 'f' {
			a.pass(a.perRead)
			a.onRead(name)
		}
		return nil
	}}
	o.Report = func(r Result) { verdicts[r.Path] = r.Verdict }
	s, err := Scrub(ctx, &o, &counters.Set{})
	return verdicts, s, err
}

// good is what the scrubs know about a file: its size and mtime when they found it good.
type goodState struct {
	size  int64
	mtime time.Time
}

// expected is the verdict about a file as it is now, from the definition of the verdicts.
func (a *archive) expected(name string, good map[string]goodState) Verdict {
	path := filepath.Join(a.dir, name)
	content, err := os.ReadFile(path)
	if err != nil {
		return Missing
	}
	info, err := os.Stat(path)
	require.NoError(a, err)
	now := goodState{info.Size(), info.ModTime()}
	last, known := good[name]
	switch {
	case string(content) == a.content(name):
		return Match
	case !known:
		return Differs
	case last == now:
		return Rotted
	}
	return Changed
}

// In a decade of scrubs each file is read at least once per MaxAge. Each verdict is right, and damage
// is reported until it is repaired. There are rot, changes, lost and new files, stopped scrubs, and a
// clock that is wrong for a while. SEALIFT_HISTORIES=N checks N decades, and SEALIFT_HISTORY=N the decade with the
// number N.
func TestADecadeOfScrubs(t *testing.T) {
	first, count := uint64(3), uint64(2)
	if n, err := strconv.ParseUint(os.Getenv("SEALIFT_HISTORIES"), 10, 64); err == nil {
		first, count = 0, n
	}
	if n, err := strconv.ParseUint(os.Getenv("SEALIFT_HISTORY"), 10, 64); err == nil {
		first, count = n, 1
	}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			scrubADecade(t, seed)
		})
	}
}

// scrubADecade has time for at least two files in each run, besides damaged ones: all files in 36 days, and in 40 days
// with the runs that are stopped.
func scrubADecade(t *testing.T, seed uint64) {
	const files, maxAge, every = 24, 80 * 24 * time.Hour, 3 * 24 * time.Hour
	a, random := newArchive(t, files), rand.New(rand.NewPCG(seed, 6))
	good, lastRead, damaged := map[string]goodState{}, map[string]time.Time{}, map[string]bool{}
	seen := map[Verdict]int{}
	a.onRead = func(name string) { lastRead[name] = a.now() }
	begin := a.now()
	runs, stopped := 0, 0
	for a.now().Before(begin.AddDate(10, 0, 0)) {
		name := fmt.Sprintf("f%02d", random.IntN(files))
		path := filepath.Join(a.dir, name)
		info, err := os.Stat(path)
		switch n := random.IntN(20); {
		case n == 0 && err == nil: // rot
			a.write(name, strings.Replace(a.content(name), "f", "g", 1))
			a.touch(name, info.ModTime())
		case n == 1 && err == nil:
			a.touch(name, a.now())
		case n == 2 && err == nil:
			a.write(name, a.content(name)+"more")
		case n == 3:
			_ = os.Remove(path)
		case n == 4:
			a.write(fmt.Sprintf("n%02d", random.IntN(9)), "unlisted")
		case n == 5:
			_ = os.Remove(filepath.Join(a.dir, fmt.Sprintf("n%02d", random.IntN(9))))
		case n < 14: // repair
			for d := range damaged {
				a.write(d, a.content(d))
				if last, known := good[d]; known && n%2 == 0 {
					a.touch(d, last.mtime)
				}
				break
			}
		}
		switch runs {
		case 400:
			a.wrong = -500 * 24 * time.Hour
		case 420:
			a.wrong = 0
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		reads := 0
		stops := random.IntN(10) == 0
		a.onRead = func(name string) {
			lastRead[name] = a.now()
			if reads++; stops && reads == 1 {
				cancel(errors.New("stopped"))
			}
		}
		want := map[string]Verdict{}
		for i := range files {
			name := fmt.Sprintf("f%02d", i)
			want[name] = a.expected(name, good)
		}
		verdicts, s, err := a.scrub(ctx, ScrubOptions{For: 40 * time.Minute, MaxAge: maxAge})
		if ctx.Err() != nil {
			stopped++
			require.ErrorContains(t, err, "stopped")
		} else {
			require.NoError(t, err)
			for name := range damaged {
				require.Contains(t, verdicts, name, "run %d", runs)
			}
		}
		for name, v := range verdicts {
			if name[0] == 'n' {
				require.Equal(t, Unlisted, v, name)
				continue
			}
			if v != want[name] && a.now().Sub(lastRead[name]) > every { // not checked again in this run
				require.True(t, damaged[name], "run %d, %s: %d", runs, name, v)
				continue
			}
			require.Equal(t, want[name], v, "run %d, %s", runs, name)
			seen[v]++
			damaged[name] = v != Match
			if v == Match {
				delete(damaged, name)
				info, err := os.Stat(filepath.Join(a.dir, name))
				require.NoError(t, err)
				good[name] = goodState{info.Size(), info.ModTime()}
			}
		}
		for i := range files {
			name := fmt.Sprintf("f%02d", i)
			if _, err := os.Stat(filepath.Join(a.dir, name)); err != nil {
				if ctx.Err() == nil {
					require.Equal(t, Missing, verdicts[name], "run %d", runs) // without being read
				}
				lastRead[name] = a.now()
			}
			if runs > 40 {
				require.Less(t, a.now().Sub(lastRead[name]), maxAge, "run %d, %s", runs, name)
			}
		}
		require.LessOrEqual(t, s.Files, int64(files))
		cancel(nil)
		runs++
		a.pass(every)
	}
	t.Log(runs, "runs,", stopped, "stopped", seen)
	for _, v := range []Verdict{Match, Rotted, Changed, Missing} {
		require.Greater(t, seen[v], 50, v)
	}
	require.Greater(t, stopped, 50)
}

// A run reads for its time, goes on where the last one ended, and always reads the stalest file.
func TestScrubStaysWithinItsTime(t *testing.T) {
	a := newArchive(t, 10)
	var read []string
	a.onRead = func(name string) { read = append(read, name) }
	for _, want := range []string{"[f00 f01 f02]", "[f03 f04 f05]", "[f06 f07 f08]", "[f09 f00 f01]"} {
		read = nil
		_, s, err := a.scrub(t.Context(), ScrubOptions{For: 30 * time.Minute})
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprint(read))
		require.Equal(t, int64(3), s.Files)
		require.Equal(t, int64(4), s.Runs)
		a.pass(24*time.Hour - 30*time.Minute)
	}
	read = nil
	_, s, err := a.scrub(t.Context(), ScrubOptions{For: time.Second})
	require.NoError(t, err)
	require.Equal(t, "[f02]", fmt.Sprint(read), "a run without time reads one file")
	require.Equal(t, int64(10), s.Runs)
	require.Equal(t, a.now().Add(-10*time.Minute).AddDate(0, 0, 9), s.Until)
	require.Equal(t, time.Date(2026, 1, 2, 0, 10, 0, 0, time.UTC), s.Oldest, "of f03")
}

// A run that is killed loses at most the checks since the last write of the state.
func TestScrubWritesItsStateMeanwhile(t *testing.T) {
	a := newArchive(t, 10)
	var saved []byte
	a.onRead = func(name string) {
		time.Sleep(20 * time.Millisecond) // the collector is ahead of the next file
		if name == "f05" {                // a kill now leaves this
			saved, _ = os.ReadFile(a.state)
		}
	}
	_, _, err := a.scrub(t.Context(), ScrubOptions{For: 24 * time.Hour})
	require.NoError(t, err)
	require.Contains(t, string(saved), "  f00\n")
	require.NotContains(t, string(saved), "  f05\n")
	require.NoError(t, os.WriteFile(a.state, saved, 0o600))
	first := ""
	a.onRead = func(name string) {
		if first == "" {
			first = name
		}
	}
	_, _, err = a.scrub(t.Context(), ScrubOptions{For: 24 * time.Hour})
	require.NoError(t, err)
	require.NotContains(t, string(saved), "  "+first+"\n", "it was checked already")
}

// A file that is written while it is read is an error, and no verdict about its content.
func TestScrubOfAFileThatIsWritten(t *testing.T) {
	a := newArchive(t, 1)
	a.pass(time.Hour)
	a.onRead = func(string) { a.write("f00", a.content("f01")) }
	verdicts, s, err := a.scrub(t.Context(), ScrubOptions{For: time.Hour})
	require.NoError(t, err)
	require.Equal(t, map[string]Verdict{"f00": Unreadable}, verdicts)
	require.Equal(t, int64(1), s.Errors)
	a.onRead = func(string) {}
	a.write("f00", a.content("f00"))
	verdicts, _, err = a.scrub(t.Context(), ScrubOptions{For: time.Hour})
	require.NoError(t, err)
	require.Equal(t, map[string]Verdict{"f00": Match}, verdicts)
}

// Much damage gets half of the time; the rest of it is reported from the state.
func TestScrubWithMuchDamage(t *testing.T) {
	a := newArchive(t, 10)
	_, _, err := a.scrub(t.Context(), ScrubOptions{For: 24 * time.Hour})
	require.NoError(t, err)
	for i := range 8 {
		name := fmt.Sprintf("f%02d", i)
		a.write(name, "damaged")
	}
	_, _, err = a.scrub(t.Context(), ScrubOptions{For: 24 * time.Hour})
	require.NoError(t, err)
	var read []string
	a.onRead = func(name string) { read = append(read, name) }
	verdicts, s, err := a.scrub(t.Context(), ScrubOptions{For: 40 * time.Minute})
	require.NoError(t, err)
	require.Equal(t, "[f00 f01 f08 f09]", fmt.Sprint(read))
	require.Equal(t, [2]int64{8, 6}, [2]int64{s.Changed, s.Known})
	require.Len(t, verdicts, 10)

	read = nil
	_, _, err = a.scrub(t.Context(), ScrubOptions{For: time.Second})
	require.NoError(t, err)
	require.Equal(t, "[f02 f08]", fmt.Sprint(read), "damage has used the time, but the stalest other file is begun")
}
