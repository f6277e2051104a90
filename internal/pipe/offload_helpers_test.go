//go:build linux

package pipe

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// stretch is a part of a file: data, or a hole.
type stretch struct {
	n    int64
	hole bool
}

// makeStretches makes a file, of which it returns the content.
func makeStretches(t *testing.T, path string, parts ...stretch) []byte {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	var content []byte
	for i, p := range parts {
		data := make([]byte, p.n)
		if !p.hole {
			data = treetest.Pattern(int(p.n), byte(i))
			_, err = f.WriteAt(data, int64(len(content)))
			require.NoError(t, err)
		}
		content = append(content, data...)
	}
	require.NoError(t, errors.Join(f.Truncate(int64(len(content))), f.Close()))
	return content
}

// watchedFile is a file that notes what of it is submitted.
type watchedFile struct {
	mu     sync.Mutex
	chunks [][2]int64 // begin, end
}

func (f *watchedFile) StartWriteback(off, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chunks = append(f.chunks, [2]int64{off, off + n})
	return nil
}

func (f *watchedFile) WaitWriteback(_, _ int64) error { return nil }
func (f *watchedFile) Datasync() error                { return nil }
func (f *watchedFile) DropCacheBehind(_, _ int64)     {}
func (f *watchedFile) Close()                         {}
func (f *watchedFile) dup() (file, error)             { return f, nil }

// calls counts operations until it is replaced, and can make one fail.
type calls struct {
	ranges, reads, writes, truncates int
	step                             int64 // the largest, as counted
	at                               func(c *calls, op fsys.Op) error
}

func count(sys *fsys.FS, p *Pipe, at func(c *calls, op fsys.Op) error) *calls {
	c := &calls{at: at}
	last := p.Bytes.Load()
	var mu sync.Mutex
	hook(sys, func(op fsys.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		switch op {
		case fsys.OpRead:
			c.reads++
		case fsys.OpWrite:
			c.writes++
		case fsys.OpTruncate:
			c.truncates++
		case fsys.OpCopyRange:
			c.ranges++
			c.step = max(c.step, p.Bytes.Load()-last)
			last = p.Bytes.Load()
		}
		if c.at != nil {
			return c.at(c, op)
		}
		return nil
	})
	return c
}

// rangeSource is a file to be copied by the system, in dir.
func rangeSource(t *testing.T, sys *fsys.FS, dir string, parts ...stretch) (d *fsys.Dir, src *fsys.File, info fsys.Info, content []byte) {
	t.Helper()
	content = makeStretches(t, filepath.Join(dir, "src"), parts...)
	d = openDirOf(t, sys, dir)
	src, info, err := d.Open("src")
	require.NoError(t, err)
	t.Cleanup(src.Close)
	return d, src, info, content
}

// rangeSink may be written by the system. The device, if any, is informed.
func rangeSink(t *testing.T, d *fsys.Dir, device *Device) (*Sink, *watchedFile) {
	t.Helper()
	s := sinks(t, d, 1)[0]
	t.Cleanup(func() { s.File.Abort() })
	s.Refused = new(atomic.Bool)
	watched := &watchedFile{}
	if device != nil {
		s.Behind = device.behind(watched, noFailure(t))
	}
	return s, watched
}

// dense is a file of data that takes so many calls, and a bit.
func dense(calls int64) stretch { return stretch{n: calls*offloadUnit + 123} }

// skipWithoutRanges skips where the system does not copy between two files in dir.
func skipWithoutRanges(t *testing.T, d *fsys.Dir, src *fsys.File) {
	t.Helper()
	p, err := d.Create(false)
	require.NoError(t, err)
	defer p.Abort()
	if n, handled, err := p.CopyRange(src, 0, 1); !handled || n != 1 {
		t.Skip("copy_file_range does not work here: ", err)
	}
}
