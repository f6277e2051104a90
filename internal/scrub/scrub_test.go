package scrub

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

var (
	monday  = time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC).Unix()
	good    = Entry{Good, monday, monday, 1234, fsys.Time{Sec: 1764115811, Nsec: 5}}
	hostile = "a\nb\\c\r \xff"
)

// Differing separates rot, changes, and files that no scrub knows.
func TestDiffering(t *testing.T) {
	require.Equal(t, Rotted, good.Differing(1234, good.Mtime))
	require.Equal(t, Changed, good.Differing(1235, good.Mtime))
	require.Equal(t, Changed, good.Differing(1234, fsys.Time{Sec: 1764115811, Nsec: 6}))
	require.Equal(t, Differs, Entry{}.Differing(0, fsys.Time{}))
	bad := Entry{}.After(monday, Differs, 7, good.Mtime)
	require.Equal(t, Differs, bad.Differing(7, good.Mtime), "the check was not a good one")
	rotted := good.After(monday+5, Rotted, 0, fsys.Time{})
	require.Equal(t, Rotted, rotted.Differing(1234, good.Mtime), "the last good check stays")
}

// A state is read as it was written, with the last line about each path.
func TestStateRoundTrip(t *testing.T) {
	s := NewSchedule()
	defer s.Close()
	want := map[string]Entry{
		"plain": good, hostile: good.After(monday+9, Rotted, 0, fsys.Time{}),
		"never": Entry{}.After(monday, Unreadable, 0, fsys.Time{}), "  blank": good.After(monday+1, Missing, 0, fsys.Time{}),
	}
	require.NoError(t, s.Record("plain", Entry{Missing, 1, 0, 0, fsys.Time{}}))
	for path, e := range want {
		require.NoError(t, s.Record(path, e))
	}
	var text bytes.Buffer
	stats, err := s.Write(&text, monday, monday+9, monday+1)
	require.NoError(t, err)
	require.Equal(t, Stats{Checked: 4, Oldest: monday, Overdue: 2, Sized: 3, Bytes: 3 * 1234}, stats)
	have := map[string]Entry{}
	content, err := Read(&text, func(path string, e Entry) error { have[path] = e; return nil })
	require.NoError(t, err)
	require.Equal(t, Content{Run: monday}, content)
	require.Equal(t, want, have)
}

// A state is hostile: lines of another form are counted and not used.
func TestReadRefusesOtherLines(t *testing.T) {
	const at = "2026-03-02T06:00:00Z"
	for _, line := range []string{
		"", "x", "good", "good " + at, "good " + at + " - - -  p", "good " + at + " " + at + " 1 1.0  p",
		"good " + at + " " + at + " -1 1.000000000  p", "good " + at + " " + at + " 1 1.000000000 p",
		"good " + at + " " + at + " 1 1.000000000  ", "good " + at + " " + at + " 1 1.000000000  a\\b",
		"\\good " + at + " " + at + " 1 1.000000000  a\\b", "lost " + at + " - - -  p", "rotted 1969-12-31T00:00:00Z - - -  p",
		"rotted " + at + " - - 1.000000000  p", "good " + at + " " + at + " 99999999999999999999 1.000000000  p",
		"missing " + at + " - - -  nul\x00",
	} {
		content, err := Read(strings.NewReader(Form.Mark+line+"\n"), func(path string, e Entry) error {
			return fmt.Errorf("%q: %v", path, e)
		})
		require.NoError(t, err, line)
		require.Equal(t, Content{Malformed: 1}, content, "%q", line)
	}
	_, err := Read(strings.NewReader("# sealift scrub state 2\n"), nil)
	require.ErrorContains(t, err, "another version")
	_, err = Read(strings.NewReader(Form.Mark+strings.Repeat("x", 2<<20)), nil)
	require.ErrorContains(t, err, "longer than 1 MiB")
}

func FuzzRead(f *testing.F) {
	f.Add(string(appendLine(nil, hostile, good.append(nil))))
	f.Add("rotted 2026-03-02T06:00:00Z - - -  p\n")
	f.Fuzz(func(t *testing.T, lines string) {
		_, _ = Read(strings.NewReader(Form.Mark+lines), func(path string, e Entry) error {
			again, e2, ok := parseLine(strings.TrimSuffix(string(appendLine(nil, path, e.append(nil))), "\n"))
			require.True(t, ok && again == path && e2 == e, "%q %v: %q %v", path, e, again, e2)
			return nil
		})
	})
}

// The order is: damage and missing files, then never checked, then the oldest. Dates in the future
// count as none.
func TestOrder(t *testing.T) {
	s := NewSchedule()
	defer s.Close()
	at := func(seconds int64) Entry { return good.After(monday+seconds, Good, 1, good.Mtime) }
	for path, e := range map[string]Entry{
		"old": at(-50), "older": at(-90), "recent": at(-10), "future": at(3600), "rotted": at(-5).After(monday-1, Rotted, 0, fsys.Time{}),
		"gone": at(-1), "unlisted": at(-80), "link": at(-60),
	} {
		require.NoError(t, s.Remember(path, e))
	}
	for _, path := range []string{"old", "older", "recent", "future", "rotted", "gone", "never", "link"} {
		require.NoError(t, s.List(path, []byte("line 1")))
		if path != "gone" && path != "link" {
			require.NoError(t, s.Walked(path, true))
		}
	}
	require.NoError(t, s.List("old", []byte("line 2")))
	require.NoError(t, s.Alias("spelling"))
	for _, path := range []string{"spelling", "unlisted", "fresh"} {
		require.NoError(t, s.Walked(path, true))
	}
	require.NoError(t, s.Walked("fifo", false))
	var fresh, order []string
	require.NoError(t, s.Order(Rules{
		Now: monday, DueBefore: monday - 20,
		Gone: func(path string) bool { return path != "link" },
		New:  func(path string) error { fresh = append(fresh, path); return nil },
	}))
	require.NoError(t, s.Each(func(f *File) error {
		require.Equal(t, f.Path == "rotted", f.Damaged, f.Path)
		require.Equal(t, f.Path == "gone", f.Gone, f.Path)
		require.Len(t, f.Lines, map[bool]int{false: 1, true: 2}[f.Path == "old"])
		order = append(order, f.Path)
		return nil
	}))
	require.Equal(t, []string{"fresh", "unlisted"}, fresh)
	require.Equal(t, []string{"gone", "rotted", "future", "never", "older", "link", "old"}, order)
	require.Equal(t, [4]int64{8, 7, 7, 1}, [4]int64{s.Listed, s.Due, s.Known, s.Dropped})
	require.Equal(t, int64(1), Clock(time.Unix(-5, 0)))
	require.NotZero(t, Clock(time.Unix(math.MaxInt64>>1, 0)))
}
