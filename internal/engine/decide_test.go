package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

func allPolicies() []Policy {
	return []Policy{PolicyDefault, PolicyNever, PolicyAlways, PolicyUpdate, PolicyChecksum}
}

// The table of SPEC's overwrite policies: for each policy, what happens to a
// name that exists.
func TestDecide(t *testing.T) {
	at := func(sec int64) fsys.Time { return fsys.Time{Sec: sec} }
	regular := func(size, sec int64) fsys.Info {
		return fsys.Info{Kind: fsys.Regular, Size: size, Mtime: at(sec)}
	}
	other := func(kind fsys.Kind, sec int64) fsys.Info { return fsys.Info{Kind: kind, Mtime: at(sec)} }
	// A row's outcomes are in the order of allPolicies: keep, Leave, Replace,
	// !conflict, and ?x: compare, and x if the content differs.
	for _, c := range []struct {
		name      string
		src, have fsys.Info
		equal     bool
		want      string
	}{
		{"same size, same time", regular(5, 100), regular(5, 100), false, "k L R k ?R"},
		{"same size, older", regular(5, 100), regular(5, 50), false, "?R L R R ?R"},
		{"same size, newer", regular(5, 100), regular(5, 200), false, "?! L R R ?R"},
		{"other size, same time", regular(5, 100), regular(6, 100), false, "R L R R R"},
		{"other size, older", regular(5, 100), regular(6, 50), false, "R L R R R"},
		{"other size, newer", regular(5, 100), regular(6, 200), false, "! L R R R"},
		{"empty, same time", regular(0, 100), regular(0, 100), false, "k L R k ?R"},
		{"equal links", other(fsys.Symlink, 100), other(fsys.Symlink, 200), true, "k L R k k"},
		{"other link, older", other(fsys.Symlink, 100), other(fsys.Symlink, 50), false, "R L R R R"},
		{"other link, same time", other(fsys.Symlink, 100), other(fsys.Symlink, 100), false, "R L R R R"},
		{"other link, newer", other(fsys.Symlink, 100), other(fsys.Symlink, 200), false, "! L R R R"},
		{"fifos", other(fsys.Fifo, 100), other(fsys.Fifo, 50), true, "k L R k k"},
		{"link in a file's way", regular(5, 100), other(fsys.Symlink, 50), false, "! L R R R"},
		{"file in a link's way", other(fsys.Symlink, 100), regular(5, 50), false, "! L R R R"},
		{"fifo in a file's way", regular(5, 100), other(fsys.Fifo, 50), false, "! L R R R"},
		{"device in a fifo's way", other(fsys.Fifo, 100), other(fsys.CharDevice, 100), false, "! L R R R"},
		{"directory in a file's way", regular(5, 100), other(fsys.Directory, 50), false, "! L ! ! !"},
		{"directory in a link's way", other(fsys.Symlink, 100), other(fsys.Directory, 50), false, "! L ! ! !"},
	} {
		wants := strings.Fields(c.want)
		for i, policy := range allPolicies() {
			t.Run(c.name+"/"+policy.String(), func(t *testing.T) {
				r := &run{opts: &Options{Policy: policy}}
				v, err := r.decide(&fileSystem{granularity: 1}, c.src, c.have, func() (bool, error) {
					require.NotEqual(t, fsys.Regular, c.src.Kind)
					return c.equal, nil
				})
				require.NoError(t, err)
				require.Equal(t, wants[i], spell(v), "%+v", v)
				if v.conflict != nil {
					require.NotEmpty(t, v.conflict.Error())
					if c.have.Kind == fsys.Directory {
						require.Equal(t, PolicyDefault, v.conflict.hint, "no policy replaces a directory")
					} else {
						require.NotEqual(t, PolicyDefault, v.conflict.hint)
					}
				}
			})
		}
	}
}

func spell(v verdict) string {
	s := map[action]string{actKeep: "k", actLeave: "L", actReplace: "R", actConflict: "!", actCompare: "?"}[v.act]
	if v.act == actCompare {
		s += spell(verdict{act: v.differs})
	}
	return s
}

// The advice that a conflict gives must be true: that policy replaces.
func TestDecideAdvice(t *testing.T) {
	for _, have := range []fsys.Info{
		{Kind: fsys.Regular, Size: 6, Mtime: fsys.Time{Sec: 200}},
		{Kind: fsys.Regular, Size: 5, Mtime: fsys.Time{Sec: 200}},
		{Kind: fsys.Symlink, Mtime: fsys.Time{Sec: 200}},
	} {
		src := fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: fsys.Time{Sec: 100}}
		r := &run{opts: &Options{}}
		v, err := r.decide(&fileSystem{granularity: 1}, src, have, nil)
		require.NoError(t, err)
		require.NotNil(t, v.conflict)
		r.opts.Policy = v.conflict.hint
		v, err = r.decide(&fileSystem{granularity: 1}, src, have, nil)
		require.NoError(t, err)
		require.Equal(t, actReplace, v.act)
	}
}

// What a destination rounds away is no difference.
func TestDecideAtTheDestinationsGranularity(t *testing.T) {
	src := fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: fsys.Time{Sec: 101, Nsec: 999_999_999}}
	for _, c := range []struct {
		granularity int64
		have        fsys.Time
		want        action
	}{
		{1, fsys.Time{Sec: 101, Nsec: 999_999_999}, actKeep},
		{1, fsys.Time{Sec: 101, Nsec: 999_999_998}, actReplace},
		{100, fsys.Time{Sec: 101, Nsec: 999_999_900}, actKeep},
		{100, fsys.Time{Sec: 101, Nsec: 999_999_899}, actReplace},
		{1e9, fsys.Time{Sec: 101}, actKeep},
		{1e9, fsys.Time{Sec: 100}, actReplace},
		{2e9, fsys.Time{Sec: 100}, actKeep},
		{2e9, fsys.Time{Sec: 102}, actKeep},
		{2e9, fsys.Time{Sec: 98}, actReplace},
	} {
		r := &run{opts: &Options{Policy: PolicyUpdate}}
		v, err := r.decide(&fileSystem{granularity: c.granularity}, src, fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: c.have}, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, v.act, "%+v", c)
	}
}

func TestDecidePassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	for _, policy := range allPolicies() {
		r := &run{opts: &Options{Policy: policy}}
		link := fsys.Info{Kind: fsys.Symlink}
		_, err := r.decide(&fileSystem{granularity: 1}, link, link, func() (bool, error) { return false, broken })
		if policy == PolicyNever {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, broken, policy)
	}
}

func TestModeFor(t *testing.T) {
	umask := fsys.Umask()
	for _, c := range []struct {
		preserve    Preserve
		src, have   uint32
		kind        fsys.Kind
		isNew, owns bool
		want        uint32
	}{
		{PreserveMode, 0o644, 0o600, fsys.Regular, true, true, 0o644},
		{PreserveMode, 0o644, 0o755, fsys.Regular, false, true, 0o644},
		{PreserveMode, 0o6755, 0o600, fsys.Regular, true, true, 0o6755},
		{PreserveMode, 0o6755, 0o600, fsys.Regular, true, false, 0o755},
		{PreserveMode, 0o1777, 0o700, fsys.Directory, true, false, 0o1777},
		{PreserveMode, 0o2755, 0o700, fsys.Directory, true, true, 0o2755},
		{PreserveMode, 0o2755, 0o700, fsys.Directory, true, false, 0o755},
		{PreserveMode, 0o2755, 0o2700, fsys.Directory, true, false, 0o2755},
		{PreserveMode, 0o755, 0o2700, fsys.Directory, true, false, 0o755},
		{PreserveNone, 0o2755, 0o2700, fsys.Directory, true, false, 0o2755 &^ umask},
		{PreserveNone, 0o6777, 0o600, fsys.Regular, true, true, 0o777 &^ umask},
		{PreserveNone, 0o666, 0o600, fsys.Regular, true, false, 0o666 &^ umask},
		{PreserveNone, 0o666, 0o400, fsys.Regular, false, false, 0o400},
		{PreserveNone, 0o777, 0o700, fsys.Directory, true, true, 0o777 &^ umask},
	} {
		r := &run{opts: &Options{Preserve: c.preserve}}
		got := r.modeFor(fsys.Info{Kind: c.kind, Mode: c.src}, fsys.Info{Mode: c.have}, c.isNew, c.owns)
		require.Equal(t, c.want, got, "%+v: %o, want %o", c, got, c.want)
	}
}

func TestJournalName(t *testing.T) {
	require.Equal(t, ".sealift-journal", journalName(""))
	require.Equal(t, ".sealift-a b.journal", journalName("a b"))
	seen := map[string]string{}
	for n := 200; n <= 255; n++ {
		for _, last := range []string{"a", "b", "\xff", "/"[:0]} {
			file := strings.Repeat("x", n-len(last)) + last
			name := journalName(file)
			require.LessOrEqual(t, len(name), 255)
			require.True(t, strings.HasPrefix(name, fsys.Reserved) && strings.HasSuffix(name, ".journal"), name)
			if other, taken := seen[name]; taken {
				require.Equal(t, other, file, "two files, one journal")
			}
			seen[name] = file
		}
	}
	long := strings.Repeat("n", fsys.MaxName-len(".sealift-.journal"))
	require.Equal(t, ".sealift-"+long+".journal", journalName(long), "as long as may be")
}
