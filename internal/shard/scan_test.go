package shard

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

func TestScan(t *testing.T) {
	source := t.TempDir()
	for _, path := range []string{"a/x.mov", "a/y.tmp", "b/sub/z.mov", "empty/.keep.tmp", ".sealift-0123456789abcdef.tmp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(source, filepath.Dir(path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(source, path), []byte(path), 0o600))
	}
	require.NoError(t, os.Link(filepath.Join(source, "a/x.mov"), filepath.Join(source, "b/x2.mov")))
	for rules, want := range map[string]string{
		"-*.tmp":    "a b b/sub empty | a/x.mov b/sub/z.mov b/x2.mov",
		"+*.mov -*": "a b b/sub | a/x.mov b/sub/z.mov b/x2.mov",
	} {
		list := &filter.List{}
		for rule := range strings.FieldsSeq(rules) {
			require.NoError(t, list.Add(filter.Rule{Include: rule[0] == '+', Pattern: rule[1:]}))
		}
		dir, _ := openTemp(t)
		p, err := NewPlanner(dir, planOptions(2))
		require.NoError(t, err)
		defer p.Close()
		root, err := fsys.OpenRoot(source)
		require.NoError(t, err)
		var reserved []string
		require.NoError(t, Scan(context.Background(), root, p, ScanOptions{
			Options:    walk.Options{Workers: 3, Filter: list, SkipReserved: func(d *walk.Dir, name string) { reserved = append(reserved, d.Join(name)) }},
			Enter:      func(*walk.Dir) bool { return true },
			Wanted:     func(string, fsys.Info) bool { return true },
			Unreadable: func(path string, err error) { t.Errorf("%q: %v", path, err) },
		}))
		_, err = p.Write(context.Background())
		require.NoError(t, err)
		s, err := Open(dir)
		require.NoError(t, err)
		var dirs []string
		r, err := s.OpenDirs()
		require.NoError(t, err)
		for d, err := r.Next(); err == nil; d, err = r.Next() {
			if d.Path != "" {
				dirs = append(dirs, d.Path)
			}
		}
		r.Close()
		home := homes(t, readShards(t, s))
		var files []string
		for _, path := range []string{"a/x.mov", "b/sub/z.mov", "b/x2.mov"} {
			if _, ok := home[path]; ok {
				files = append(files, path)
			}
		}
		assert.Len(t, home, 3)
		assert.Equal(t, want, strings.Join(dirs, " ")+" | "+strings.Join(files, " "))
		assert.EqualValues(t, 1, s.Plan.Totals.LinkGroups)
		assert.Equal(t, []string{".sealift-0123456789abcdef.tmp"}, reserved)
	}
}
