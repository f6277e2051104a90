//go:build unix

package verify_test

import (
	"context"
	"crypto/md5" //nolint:gosec // a digest like any other here
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

func sha(content string) string { s := sha256.Sum256([]byte(content)); return hex.EncodeToString(s[:]) }

func md(content string) string { s := md5.Sum([]byte(content)); return hex.EncodeToString(s[:]) } //nolint:gosec // see the import

func sha5(content string) string {
	s := sha512.Sum512([]byte(content))
	return hex.EncodeToString(s[:])
}

// tree makes a directory with the given files.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(treetest.MemoryDir(t), "tree")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

var verdicts = []string{"OK", "FAILED", "MISSING", "UNREADABLE", "UNLISTED", "WARNING", "FAILURE", "INCOMPLETE"}

// check runs a check and returns the reports, one line each.
func check(t testing.TB, o *verify.Options) (reported []string, s *verify.Summary, err error) {
	t.Helper()
	o.Report = func(r verify.Result) {
		line := verdicts[r.Verdict] + " " + r.Path
		if r.Err != nil && r.Verdict != verify.Missing {
			line += ": " + r.Err.Error()
		}
		reported = append(reported, line)
	}
	s, err = verify.Run(context.Background(), o, &counters.Set{CountTotals: true})
	return reported, s, err
}
