package shard

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

func TestAPlanIsNotReplaced(t *testing.T) {
	dir, _ := openTemp(t)
	var planners []*Planner
	for range 2 { // at the same time
		p, err := NewPlanner(dir, planOptions(1))
		require.NoError(t, err)
		defer p.Close()
		require.NoError(t, p.AddDirectory(Directory{}))
		planners = append(planners, p)
	}
	_, err := planners[0].Write(context.Background())
	require.NoError(t, err)
	_, err = planners[1].Write(context.Background())
	require.ErrorIs(t, err, ErrPlanned)
	_, err = NewPlanner(dir, planOptions(1))
	require.ErrorIs(t, err, ErrPlanned)
}

// A planner that is killed before any operation leaves no plan, or the complete one. The
// next planner writes a plan in the same directory.
func TestAKilledPlannerLeavesNothingThatLooksComplete(t *testing.T) {
	killed := errors.New("killed")
	for n := 0; ; n++ {
		require.Less(t, n, 1000)
		path := filepath.Join(t.TempDir(), "plan")
		require.NoError(t, os.Mkdir(path, 0o700))
		left := n
		system := &fsys.FS{Fault: func(fsys.Call) error {
			if left--; left < 0 {
				return killed
			}
			return nil
		}}
		err := planIn(system, path, 5)
		if err == nil {
			require.Positive(t, n)
			return
		}
		require.ErrorIs(t, err, killed)
		dir, err := fsys.OpenRoot(path)
		require.NoError(t, err)
		s, err := Open(dir)
		if err == nil { // the last sync failed
			readShards(t, s)
			dir.Close()
			continue
		}
		require.ErrorIs(t, err, ErrNoPlan)
		leftover := filepath.Join(path, "shards", fsys.TempName())
		if os.Mkdir(filepath.Dir(leftover), 0o700); n%2 == 0 { // a system without files that have no name leaves one
			require.NoError(t, os.WriteFile(leftover, nil, 0o600))
		}
		require.NoError(t, planIn(nil, path, 2), "operation %d", n)
		s, err = Open(dir)
		require.NoError(t, err)
		require.Len(t, homes(t, readShards(t, s)), 3)
		names, err := os.ReadDir(filepath.Join(path, "shards"))
		require.NoError(t, err)
		require.Len(t, names, 2)
		dir.Close()
	}
}

func planIn(system *fsys.FS, path string, shards int) error {
	dir, err := system.OpenRoot(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	o := planOptions(shards)
	o.memory = 64
	p, err := NewPlanner(dir, o)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.AddDirectory(Directory{}); err != nil {
		return err
	}
	for i, name := range []string{"c", "a", "b"} {
		if err := p.Add(file(name, int64(i)).Entry, fsys.ID{}, 1); err != nil {
			return err
		}
	}
	_, err = p.Write(context.Background())
	return err
}
