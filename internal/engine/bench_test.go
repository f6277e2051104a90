package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A whole run over many small files: walk, copy, metadata, names, manifest.
func BenchmarkRunSmallFiles(b *testing.B) {
	for _, algorithms := range [][]hash.Algorithm{nil, {hash.SHA256}} {
		b.Run(fmt.Sprintf("hashes=%d", len(algorithms)), func(b *testing.B) {
			const files = 1000
			dir := treetest.MemoryDir(b)
			src := filepath.Join(dir, "src")
			for i := range files {
				write(b, src, fmt.Sprintf("d%02d/f%03d", i%50, i), treetest.Pattern(1000+i*8, byte(i)), since)
			}
			o := Options{Source: src, Records: Records{Hashes: algorithms}, Sync: dest.SyncNone, Preserve: metadata.PreserveAll}
			benchmarkRun(b, o, dir, files)
		})
	}
}

// One large file through the lanes, and the same twice at once.
func BenchmarkRunLargeFiles(b *testing.B) {
	for _, files := range []int{1, 2} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			dir := treetest.MemoryDir(b)
			src := filepath.Join(dir, "src")
			const size = 64 << 20
			for i := range files {
				write(b, src, fmt.Sprint(i), treetest.Pattern(size, byte(i)), since)
			}
			o := Options{Source: src, Records: Records{Hashes: []hash.Algorithm{hash.SHA256}}, Sync: dest.SyncNone, Preserve: metadata.PreserveAll}
			b.SetBytes(int64(files) * size)
			benchmarkRun(b, o, dir, int64(files))
		})
	}
}

func benchmarkRun(b *testing.B, o Options, dir string, files int64) {
	b.Helper()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		o.Targets = []string{filepath.Join(dir, fmt.Sprint("dst", n))}
		s, err := Run(context.Background(), &o, &counters.Set{})
		if err != nil || s.Errors > 0 || s.Files != files {
			b.Fatal(err, s)
		}
		b.StopTimer()
		require.NoError(b, os.RemoveAll(o.Targets[0]))
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(int64(b.N)*files), "µs/file")
}
