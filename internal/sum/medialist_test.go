package sum_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/sum"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// If any operation fails, there is an error, and the list is complete or absent.
func TestMediaListIsCompleteOrAbsent(t *testing.T) {
	defer goleak.VerifyNone(t)
	broken := errors.New("broken")
	operations := int64(1000)
	for nth := int64(0); nth <= operations; nth++ {
		dir := filepath.Join(treetest.MemoryDir(t), "card")
		treetest.Create(t, dir, treetest.Dir{"a": treetest.File("a"), "d": treetest.Dir{"b": treetest.File("b")}})
		var done atomic.Int64
		o := &sum.Options{
			Paths: []string{dir}, Workers: 1,
			MediaList: &sum.MediaList{Creator: classic.Creator{User: "u", Host: "h", Tool: "t"}, Hashes: []hash.Algorithm{hash.XXH64}},
			FS: faultfs.New(func(fsys.Op, string) error {
				if done.Add(1) == nth {
					return broken
				}
				return nil
			}),
		}
		s, err := sum.Run(context.Background(), o, &counters.Set{})
		lists, globErr := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, globErr)
		var content []byte
		for _, name := range lists {
			if strings.HasSuffix(name, classic.Extension) {
				content, globErr = os.ReadFile(name)
				require.NoError(t, globErr)
			}
		}
		if nth == 0 { // nothing fails
			operations = done.Load()
			require.NoError(t, err)
			require.Equal(t, int64(2), s.Files)
			require.Equal(t, 2, strings.Count(string(content), "<xxhash64be>"))
			require.Equal(t, 2, s.List.Lines)
			continue
		}
		if content != nil {
			require.True(t, strings.HasSuffix(string(content), "</hashlist>\n"), "operation %d", nth)
			require.Equal(t, 2, strings.Count(string(content), "<xxhash64be>"), "operation %d", nth)
		} else if err == nil {
			t.Errorf("operation %d failed, there is no list, and no error", nth)
		}
	}
	require.Greater(t, operations, int64(10))
}

func TestMediaListIsForOneDirectory(t *testing.T) {
	dir := filepath.Join(treetest.MemoryDir(t), "card")
	treetest.Create(t, dir, treetest.Dir{"a": treetest.File("a"), "d": treetest.Dir{"b": treetest.File("b")}})
	for _, paths := range [][]string{{dir, dir}, {filepath.Join(dir, "a")}, {filepath.Join(dir, "gone")}, {"-"}} {
		o := &sum.Options{Paths: paths, MediaList: &sum.MediaList{Hashes: []hash.Algorithm{hash.XXH64}}, Stdin: strings.NewReader("")}
		_, err := sum.Run(context.Background(), o, &counters.Set{})
		var refused *failure.RefusedError
		require.ErrorAs(t, err, &refused, paths)
	}
}
