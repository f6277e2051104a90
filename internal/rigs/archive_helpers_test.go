//go:build linux

package rigs

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A member is one file of an archive.
type member struct {
	data  []byte
	mode  fs.FileMode
	mtime time.Time
	owner string // not in a zip archive
}

func readTar(t *testing.T, name string) map[string]member {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	r := tar.NewReader(bytes.NewReader(unzip(t, data)))
	members := map[string]member{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return members
		}
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		members[path.Clean(h.Name)] = member{data, h.FileInfo().Mode(), h.ModTime, h.Uname + ":" + h.Gname}
	}
}

func readZip(t *testing.T, name string) map[string]member {
	t.Helper()
	r, err := zip.OpenReader(name)
	require.NoError(t, err)
	members := map[string]member{}
	for _, f := range r.File {
		in, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		members[f.Name] = member{data: data, mode: f.Mode(), mtime: f.Modified}
	}
	require.NoError(t, r.Close())
	return members
}

// unzip decompresses a stream that must not contain a time, a name or a system.
func unzip(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	assert.Zero(t, r.Name)
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	return out
}
