package resume

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/journal"
)

// A time stamp of a mount counts as earlier than one of the root only if neither a
// coarser granularity nor a clock that is behind can explain the difference.
func TestTimesOfTwoFileSystemsAreComparedWithSlack(t *testing.T) {
	at := fsys.Time{Sec: 100, Nsec: 5e8}
	same := TimeStamps{}
	require.True(t, same.before(fsys.Time{Sec: 100, Nsec: 499999999}, at))
	require.False(t, same.before(at, at))
	other := TimeStamps{Slack: 1600 * time.Millisecond}
	require.True(t, other.before(fsys.Time{Sec: 98, Nsec: 899999999}, at))
	require.False(t, other.before(fsys.Time{Sec: 98, Nsec: 9e8}, at))
	require.False(t, other.before(fsys.Time{Sec: 100}, at))
	require.False(t, other.before(fsys.Time{Sec: 1<<63 - 1}, at), "no time is so late that it counts as early")
}

// The interrupted run of these tests began at second 100 and made a checkpoint at 200,
// which covers "listed" and not "written".
var (
	source  = fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: fsys.Time{Sec: 50}, Ctime: fsys.Time{Sec: 60}}
	digests = hash.Digests{make([]byte, hash.SHA256.Size())}
	protect = TimeStamps{ChangeTimes: true, Granularity: 1}
)

func recordListed(t *testing.T, root *fsys.Dir, checkpoint fsys.Time) {
	t.Helper()
	record(t, root, tested, func(w *journal.Writer) {
		for _, path := range []string{"listed", "written"} {
			require.NoError(t, w.File(&journal.File{
				Path: path, Size: source.Size, Mtime: source.Mtime, Ctime: source.Ctime, Digests: digests,
			}))
			if path == "listed" {
				require.NoError(t, w.Checkpoint(w.Size(), checkpoint))
			}
		}
	})
}

// at returns a file at the destination that was changed at this second.
func at(second, nanosecond int64) fsys.Info {
	have := source
	have.Ctime = fsys.Time{Sec: second, Nsec: nanosecond}
	return have
}

func TestJudgement(t *testing.T) {
	root := openRoot(t, nil)
	recordListed(t, root, fsys.Time{Sec: 200})
	_, r, _, _ := open(t, root, tested)
	other := func(of fsys.Info, change func(*fsys.Info)) fsys.Info {
		change(&of)
		return of
	}
	longer := func(i *fsys.Info) { i.Size++ }
	modified := func(i *fsys.Info) { i.Mtime.Sec++ }
	touched := func(i *fsys.Info) { i.Ctime.Sec++ }
	behind := TimeStamps{ChangeTimes: true, Granularity: 1, Slack: time.Second}
	settable := TimeStamps{Granularity: 2e9}
	for _, c := range []struct {
		name, path         string
		src, have          fsys.Info
		stamps             TimeStamps
		listed, incomplete bool
	}{
		{"as the run left it", "listed", source, at(150, 0), protect, true, true},
		{"as it was before the run", "listed", source, at(99, 5e8), protect, true, false},
		{"just before the checkpoint", "listed", source, at(199, 5e8), protect, true, true},
		{"changed after the checkpoint", "listed", source, at(201, 0), protect, false, true},
		{"of another length", "listed", source, other(at(150, 0), longer), protect, false, true},
		{"with another time", "listed", source, other(at(150, 0), modified), protect, false, true},
		{"the source is longer", "listed", other(source, longer), at(150, 0), protect, false, true},
		{"the source was modified", "listed", other(source, modified), at(150, 0), protect, false, true},
		{"the source was changed", "listed", other(source, touched), at(150, 0), protect, false, true},

		{"not covered", "written", source, at(150, 0), protect, false, true},
		{"not covered, from before the run", "written", source, at(99, 0), protect, false, false},
		{"not covered, of another length", "written", source, other(at(150, 0), longer), protect, false, true},
		{"not covered, the source was changed", "written", other(source, touched), at(150, 0), protect, false, true},

		{"not recorded", "unknown", source, at(150, 0), protect, false, true},
		{"not recorded, from before the run", "unknown", source, at(99, 0), protect, false, false},

		{"perhaps before the run", "listed", source, at(99, 5e8), behind, true, true},
		{"perhaps before the checkpoint", "listed", source, at(199, 5e8), behind, false, true},
		{"programs set the change time", "listed", source, at(99, 0), settable, false, true},
		{"programs set it, and the time is another", "unknown", source, other(at(99, 0), func(i *fsys.Info) { i.Mtime.Sec = 70 }), settable, false, false},
		{"programs set it, and the time is later", "unknown", source, other(at(99, 0), func(i *fsys.Info) { i.Mtime.Sec = 150 }), settable, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := r.Judge(c.path, c.src, c.have, c.stamps)
			require.Equal(t, c.listed, left.Listed, "listed")
			require.Equal(t, c.incomplete, left.MayBeIncomplete, "may be incomplete")
			if c.listed {
				require.Equal(t, digests, left.Digests)
			} else {
				require.Nil(t, left.Digests)
			}
		})
	}
}

// These runs use nothing from the log of an interrupted one, although it lists the file.
func TestJudgementWithoutProof(t *testing.T) {
	for name, c := range map[string]struct {
		checkpoint fsys.Time
		change     func(*Options)
	}{
		"the clock was ahead at the checkpoint": {fsys.Time{Sec: time.Now().Unix() + 3600}, func(*Options) {}},
		"times are not kept":                    {fsys.Time{Sec: 200}, func(o *Options) { o.KeepTimes = false }},
		"another hash is wanted as well":        {fsys.Time{Sec: 200}, func(o *Options) { o.Hashes = append(o.Hashes[:1:1], hash.XXH128) }},
		"the log has other terms":               {fsys.Time{Sec: 200}, func(o *Options) { o.Terms = "hash=sha256&sparse=never" }},
	} {
		t.Run(name, func(t *testing.T) {
			root := openRoot(t, nil)
			recordListed(t, root, c.checkpoint)
			o := tested
			c.change(&o)
			_, r, _, _ := open(t, root, o)
			left := r.Judge("listed", source, at(150, 0), protect)
			require.Equal(t, Judgement{MayBeIncomplete: true}, left)
		})
	}
}

// Without an interrupted run, every file is complete.
func TestJudgementWithoutAnInterruptedRun(t *testing.T) {
	_, r, _, _ := open(t, openRoot(t, nil), tested)
	require.False(t, r.Interrupted)
	require.Equal(t, Judgement{}, r.Judge("f", source, at(150, 0), TimeStamps{}))
}

func TestTouched(t *testing.T) {
	root := openRoot(t, nil)
	recordListed(t, root, fsys.Time{Sec: 200})
	o := tested
	o.TimeStamps = func(device uint64) (TimeStamps, bool) { return protect, device == 1 }
	_, r, _, _ := open(t, root, o)
	on := func(device uint64, info fsys.Info) fsys.Info {
		info.ID.Dev = device
		return info
	}
	longer := at(99, 0)
	longer.Size++
	for _, c := range []struct {
		name, path string
		have       fsys.Info
		known      bool
		touched    bool
	}{
		{"listed", "listed", on(1, at(99, 0)), true, true},
		{"not covered", "written", on(1, at(150, 0)), false, true},
		{"listed with another length", "listed", on(1, longer), false, false},
		{"not recorded, changed since", "unknown", on(1, at(150, 0)), false, true},
		{"not recorded, from before the run", "unknown", on(1, at(99, 0)), false, false},
		{"on a file system that is not known", "unknown", on(2, at(99, 0)), false, true},
	} {
		found, touched := r.Touched(c.path, c.have)
		require.Equal(t, c.touched, touched, c.name)
		require.Equal(t, c.known, found != nil, c.name)
	}
}
