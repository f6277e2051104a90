package resume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// tested are the options of most tests.
var tested = Options{
	Source: "/src", Terms: "hash=sha256", Hashes: []hash.Algorithm{hash.SHA256}, KeepTimes: true, Durable: true,
	TimeStamps: func(uint64) (TimeStamps, bool) { return TimeStamps{}, false },
}

// openRoot opens an empty directory for a destination, through sys.
func openRoot(t *testing.T, sys *fsys.FS) *fsys.Dir {
	t.Helper()
	root, err := sys.OpenRoot(treetest.MemoryDir(t))
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

// open opens the journal and the log in root. The test can close them before it ends.
func open(t *testing.T, root *fsys.Dir, o Options) (*Journal, *Reader, *Writer, []error) {
	t.Helper()
	j, err := OpenJournal(root, JournalName(o.File))
	require.NoError(t, err)
	t.Cleanup(j.Close)
	r, warnings, err := j.ReadLogs(o)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	w, err := j.Begin(r)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	return j, r, w, warnings
}

// recordedID is the id of the logs that record makes.
const recordedID = "0123456789abcdef"

// record makes the journal of an interrupted run with a log that write has written. The run
// began at second 100.
func record(t *testing.T, root *fsys.Dir, o Options, write func(*journal.Writer)) {
	t.Helper()
	j, err := OpenJournal(root, JournalName(o.File))
	require.NoError(t, err)
	defer j.Close()
	p, err := j.dir.Create(true)
	require.NoError(t, err)
	w, err := journal.Create(&appender{file: p}, journal.Header{
		ID: recordedID, Options: o.Terms, Source: o.Source, Begun: fsys.Time{Sec: 100},
	})
	require.NoError(t, err)
	write(w)
	require.NoError(t, w.Flush())
	require.NoError(t, p.Place(LogName(o.Source)))
	require.NoError(t, p.Keep())
}

// temporary makes a file as Track wants it.
func temporary(t *testing.T, root *fsys.Dir) *fsys.Pending {
	t.Helper()
	p, err := root.Create(true)
	require.NoError(t, err)
	t.Cleanup(func() { p.Abort() })
	require.NoError(t, p.WriteAt([]byte("x"), 0))
	return p
}

func flushNothing(*Group) error { return nil }

func TestJournalName(t *testing.T) {
	require.Equal(t, ".sealift-journal", JournalName(""))
	require.Equal(t, ".sealift-a b.journal", JournalName("a b"))
	seen := map[string]string{}
	for n := 200; n <= 255; n++ {
		for _, last := range []string{"a", "b", "\xff", ""} {
			file := strings.Repeat("x", n-len(last)) + last
			name := JournalName(file)
			require.LessOrEqual(t, len(name), fsys.MaxName)
			require.True(t, strings.HasPrefix(name, fsys.Reserved) && strings.HasSuffix(name, ".journal"), name)
			if other, taken := seen[name]; taken {
				require.Equal(t, other, file, "two files, one journal")
			}
			seen[name] = file
		}
	}
	long := strings.Repeat("n", fsys.MaxName-len(".sealift-.journal"))
	require.Equal(t, ".sealift-"+long+".journal", JournalName(long), "the longest that is not shortened")
}

// A directory that is removed before the journal is made in it ends the attempts.
func TestJournalInARemovedDirectory(t *testing.T) {
	dir := filepath.Join(treetest.MemoryDir(t), "dst")
	require.NoError(t, os.Mkdir(dir, 0o755))
	root, err := fsys.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	if err := os.Remove(dir); err != nil {
		t.Skip("the system does not remove a directory that is open: ", err)
	}
	_, err = OpenJournal(root, JournalName(""))
	require.ErrorIs(t, err, ErrRootRemoved)
}

func TestAnotherRunIsKeptOut(t *testing.T) {
	root := openRoot(t, nil)
	first, err := OpenJournal(root, JournalName(""))
	require.NoError(t, err)
	_, err = OpenJournal(root, JournalName(""))
	require.ErrorIs(t, err, fsys.ErrLocked)
	first.Close()
	second, err := OpenJournal(root, JournalName(""))
	require.NoError(t, err)
	second.Close()
}

func TestTheRootIsMarked(t *testing.T) {
	root := openRoot(t, nil)
	j, err := OpenJournal(root, JournalName(""))
	require.NoError(t, err)
	defer j.Close()
	marked, err := j.RootMarked()
	require.NoError(t, err)
	require.False(t, marked)
	require.NoError(t, MarkRoot(root, JournalName(""), true))
	marked, err = j.RootMarked()
	require.NoError(t, err)
	require.True(t, marked)
}

// A run that completes removes everything of its own copy, and nothing that an unfinished
// copy from another source needs.
func TestRemoveLeavesLogsOfOtherSources(t *testing.T) {
	for name, other := range map[string]bool{"alone": false, "with the log of another source": true} {
		t.Run(name, func(t *testing.T) {
			root := openRoot(t, nil)
			elsewhere := tested
			elsewhere.Source = "/elsewhere"
			if other {
				record(t, root, elsewhere, func(*journal.Writer) {})
			}
			j, r, w, warnings := open(t, root, tested)
			require.True(t, j.HoldsLogs())
			require.Equal(t, other, r.Interrupted)
			w.Close()
			r.Close()
			require.NoError(t, j.Remove())
			require.True(t, j.Removed)
			j.Close()
			if !other {
				require.Empty(t, warnings)
				_, err := root.Lstat(JournalName(""))
				require.ErrorIs(t, err, os.ErrNotExist)
				return
			}
			require.Len(t, warnings, 1)
			require.ErrorContains(t, warnings[0], "/elsewhere")
			dir, err := root.OpenDir(JournalName(""))
			require.NoError(t, err)
			defer dir.Close()
			for name, want := range map[string]bool{
				LogName("/elsewhere"): true, lockName: true, LogName("/src"): false,
			} {
				_, err := dir.Lstat(name)
				require.Equal(t, want, err == nil, name)
			}
		})
	}
}

// The log of an earlier run is continued if its terms are those of this run. Otherwise it is
// set aside, with a warning.
func TestOnlyALogWithTheSameTermsIsContinued(t *testing.T) {
	for terms, continued := range map[string]bool{tested.Terms: true, "hash=md5": false} {
		root := openRoot(t, nil)
		earlier := tested
		earlier.Terms = terms
		record(t, root, earlier, func(*journal.Writer) {})
		_, r, _, warnings := open(t, root, tested)
		require.True(t, r.Interrupted)
		require.Equal(t, fsys.Time{Sec: 100}, r.begun)
		require.Equal(t, continued, r.known != nil)
		require.Equal(t, !continued, r.SetAside)
		if continued {
			require.Empty(t, warnings)
		} else {
			require.Len(t, warnings, 1)
			require.ErrorContains(t, warnings[0], "is of a copy with other options")
		}
	}
}
