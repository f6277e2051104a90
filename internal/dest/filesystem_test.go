package dest

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

func TestGranularityIsThatOfTheTimeStored(t *testing.T) {
	t.Parallel()
	set := fsys.Time{Sec: 1234567891, Nsec: 987654321}
	for _, c := range []struct {
		got  fsys.Time
		want int64
	}{
		{set, 1},
		{fsys.Time{Sec: set.Sec, Nsec: 987654300}, 100},
		{fsys.Time{Sec: set.Sec, Nsec: 987654000}, 1e3},
		{fsys.Time{Sec: set.Sec, Nsec: 987000000}, 1e6},
		{fsys.Time{Sec: set.Sec, Nsec: 980000000}, 10e6},
		{fsys.Time{Sec: set.Sec}, 1e9},
		{fsys.Time{Sec: set.Sec - 1}, 2e9},
	} {
		require.Equal(t, c.want, granularityOf(c.got, set), "%v", c.got)
	}
}

func TestAGuessIsTheCoarsestUnlessTheChangeTimeIsFiner(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 1, guessGranularity(fsys.Info{Ctime: fsys.Time{Sec: 1, Nsec: 123456789}}))
	require.EqualValues(t, coarsest, guessGranularity(fsys.Info{Ctime: fsys.Time{Sec: 1, Nsec: 120000000}}))
	require.EqualValues(t, coarsest, guessGranularity(fsys.Info{}))
}

// metTarget has a root and three directories below it, of which a test says which file
// systems they are on.
func metTarget(t *testing.T) (sys *fsys.FS, d *FileSystems, dirs []*fsys.Dir) {
	t.Helper()
	path := treetest.MemoryDir(t)
	sys = &fsys.FS{}
	root, err := sys.OpenRoot(path)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, os.Mkdir(filepath.Join(path, name), 0o755))
		dir, err := root.OpenDir(name)
		require.NoError(t, err)
		t.Cleanup(func() { dir.Close() })
		dirs = append(dirs, dir)
	}
	d = &FileSystems{}
	require.NoError(t, d.Open(testSettings(), root, on(t, root, 1), nil))
	t.Cleanup(d.Close)
	return sys, d, dirs
}

func testSettings() Settings {
	return Settings{Rules: &metadata.Rules{}, SharesSyncErrors: (*fsys.Dir).SharesSyncErrors, Report: func(string, error) {}}
}

// on describes dir as one on another device.
func on(t *testing.T, dir *fsys.Dir, device uint64) fsys.Info {
	t.Helper()
	info, err := dir.Stat()
	require.NoError(t, err)
	info.ID.Dev = device
	return info
}

// countCreated counts the files that are made.
func countCreated(sys *fsys.FS) *atomic.Int64 {
	made := new(atomic.Int64)
	sys.Fault = faultfs.OnOp(func(fsys.Call) error { made.Add(1); return nil }, fsys.OpCreate)
	return made
}

func TestEachFileSystemIsProbedOnce(t *testing.T) {
	t.Parallel()
	sys, d, dirs := metTarget(t)
	require.True(t, d.Root().probed)
	made := countCreated(sys)
	infos := []fsys.Info{on(t, dirs[0], 1), on(t, dirs[1], 2), on(t, dirs[2], 2)}
	systems := make([]*FileSystem, 30)
	errs := make([]error, len(systems))
	var all sync.WaitGroup
	for i := range systems {
		all.Go(func() { systems[i], errs[i] = d.Find(dirs[i%3], infos[i%3]) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.EqualValues(t, 1, made.Load(), "the root's was probed before")
	for i, s := range systems {
		require.Same(t, systems[i%3], s)
	}
	require.Same(t, d.Root(), systems[0])
	require.Same(t, systems[1], systems[2])
	require.NotSame(t, d.Root(), systems[1])
	require.Zero(t, d.Root().Slack)
	require.GreaterOrEqual(t, systems[1].Slack, tick)
	require.Len(t, d.all(), 2)
	for _, dir := range dirs {
		list, err := dir.List()
		require.NoError(t, err)
		require.Zero(t, list.Len(), "nothing is left of the probe")
	}
}

// Where nothing can be made, the properties are guessed until a directory of the file
// system is met in which something can.
func TestAFileSystemThatCannotBeProbedIsGuessed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("Windows keeps times in units of 100 ns")
	}
	sys, d, dirs := metTarget(t)
	sys.Fault = faultfs.OnOp(faultfs.Fail(syscall.EROFS), fsys.OpCreate)
	info := on(t, dirs[0], 2)
	info.Ctime.Nsec = 0
	guessed, err := d.Find(dirs[0], info)
	require.NoError(t, err)
	require.False(t, guessed.probed)
	require.False(t, guessed.ChangeTimes)
	require.EqualValues(t, coarsest, guessed.Granularity)
	made := countCreated(sys)
	probed, err := d.Find(dirs[1], on(t, dirs[1], 2))
	require.NoError(t, err)
	require.True(t, probed.probed)
	require.EqualValues(t, 1, probed.Granularity)
	require.Same(t, guessed.dir, probed.dir, "it is flushed through one descriptor")
	again, err := d.Find(dirs[0], info)
	require.NoError(t, err)
	require.Same(t, probed, again)
	require.EqualValues(t, 1, made.Load())
}

func TestADryRunProbesNothing(t *testing.T) {
	t.Parallel()
	sys, _, dirs := metTarget(t)
	d, dry := &FileSystems{}, testSettings()
	dry.DryRun = true
	made := countCreated(sys)
	require.NoError(t, d.Open(dry, dirs[0], on(t, dirs[0], 1), nil))
	mount := on(t, dirs[1], 2)
	mount.Ctime.Nsec = 0
	s, err := d.Find(dirs[1], mount)
	require.NoError(t, err)
	require.EqualValues(t, coarsest, s.Granularity)
	again, err := d.Find(dirs[2], on(t, dirs[2], 2))
	require.NoError(t, err)
	require.Same(t, s, again)
	require.Nil(t, s.dir, "nothing is flushed")
	require.Zero(t, made.Load())
}

// Each file is synced separately where the root's file system, or its own, has no flush
// that can be relied on.
func TestFilesAreSyncedSeparatelyWhereNoFlushIsReliable(t *testing.T) {
	t.Parallel()
	_, d, dirs := metTarget(t)
	for i, c := range []struct {
		sync  SyncMode
		whole bool
		want  bool
	}{
		{SyncEnd, true, !dirs[0].SyncFSReliable()},
		{SyncEnd, false, true},
		{SyncFile, false, true},
		{SyncNone, false, false},
	} {
		d.Sync, d.whole = c.sync, c.whole
		s, err := d.Find(dirs[0], on(t, dirs[0], uint64(10+i)))
		require.NoError(t, err)
		require.Equal(t, c.want, s.SyncEach, "%+v", c)
		require.False(t, s.sharesSyncErrors, "this is no FUSE file system")
	}
}

// The drives of file systems that are mounted in the destination are flushed too, where files
// are synced separately.
func TestDrivesOfMountsAreFlushed(t *testing.T) {
	t.Parallel()
	flushed := 0
	root, err := faultfs.New(func(op fsys.Op, _ string) error {
		if op == fsys.OpSyncDrive {
			flushed++
		}
		return nil
	}).OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	d := &FileSystems{root: root, drivesLater: true}
	whole, each := &FileSystem{dir: root}, &FileSystem{dir: root, SyncEach: true}
	d.mu.met = map[uint64]*FileSystem{0: whole}
	require.NoError(t, d.syncDrives())
	require.Zero(t, flushed, "the file system is flushed completely")
	d.mu.met = map[uint64]*FileSystem{0: whole, 1: each, 2: each}
	require.NoError(t, d.syncDrives())
	require.Equal(t, 2, flushed)
	d.drivesLater = false
	require.NoError(t, d.syncDrives())
	require.Equal(t, 2, flushed, "--sync=file has flushed them")
}
