package metadata

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

func TestModeFor(t *testing.T) {
	t.Parallel()
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
		r := Rules{Preserve: c.preserve}
		got := r.ModeFor(fsys.Info{Kind: c.kind, Mode: c.src}, fsys.Info{Mode: c.have}, c.isNew, c.owns)
		require.Equal(t, c.want, got, "%+v: %o, want %o", c, got, c.want)
	}
}

// A property of a file system is asked for once, and again after an error only.
func TestAnAnswerIsRemembered(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{false, true} {
		var a answer
		asked := 0
		ask := func() (bool, error) {
			if asked++; asked == 1 {
				return true, syscall.EIO
			}
			return yes, nil
		}
		got, err := a.get(ask)
		require.ErrorIs(t, err, syscall.EIO)
		require.False(t, got)
		for range 3 {
			got, err = a.get(ask)
			require.NoError(t, err)
			require.Equal(t, yes, got)
		}
		require.Equal(t, 2, asked)
	}
}

// Metadata that a file system cannot store is not tried again there.
func TestARefusalThatConcernsAllFilesIsRemembered(t *testing.T) {
	t.Parallel()
	reported := 0
	s := &Store{Report: func(string, error) { reported++ }}
	s.warn(kindACL, syscall.EPERM)
	require.False(t, s.cannot(kindACL), "a refusal may concern one file")
	s.warn(kindACL, syscall.ENOTSUP)
	require.True(t, s.cannot(kindACL))
	require.False(t, s.cannot(kindOwner))
	require.Equal(t, 2, reported)
}
