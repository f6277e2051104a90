//go:build linux

package pipe

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
)

const (
	testBlock = 4 << 10 // bytes: what is longer goes through lanes
	testBig   = 5*testBlock + 123
)

// openDir opens dir for as long as the test takes.
func openDir(t testing.TB, dir string) *fsys.Dir {
	t.Helper()
	return openDirOf(t, nil, dir)
}

func openDirOf(t testing.TB, sys *fsys.FS, dir string) *fsys.Dir {
	t.Helper()
	d, err := sys.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// mover makes a pipe.
func mover(block, queue int, memory int64, keepHoles bool) *Pipe {
	return &Pipe{Pool: NewPool(block, memory), QueueSize: queue, KeepHoles: keepHoles, Bytes: new(atomic.Int64)}
}

func sinks(t require.TestingT, d *fsys.Dir, n int) []*Sink {
	list := make([]*Sink, n)
	for i := range list {
		p, err := d.Create(false)
		require.NoError(t, err)
		list[i] = &Sink{File: p}
	}
	return list
}

// written returns what a sink's file holds and gives the file up.
func written(t require.TestingT, s *Sink) []byte {
	defer s.File.Abort()
	info, err := s.File.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size)
	n, err := s.File.ReadAt(b, 0)
	require.NoError(t, err)
	return b[:n]
}

func blocksOf(t require.TestingT, s *Sink) int64 {
	info, err := s.File.Stat()
	require.NoError(t, err)
	return info.Blocks * 512
}

func digestsOf(content []byte) hash.Digests {
	set := hash.NewSet([]hash.Algorithm{hash.SHA256, hash.MD5})
	set.Write(content)
	return set.Digests()
}

func freshSet() *hash.Set { return hash.NewSet([]hash.Algorithm{hash.SHA256, hash.MD5}) }

// hook lets f decide about what is opened through sys, until unhook is called.
func hook(sys *fsys.FS, f func(op fsys.Op, name string) error) (unhook func()) {
	sys.Fault = faultfs.New(f).Fault
	return func() { sys.Fault = nil }
}

// windowOf returns how many bytes may be unwritten at present.
func windowOf(d *Device) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.window
}

// pendingOf returns how many of the group's bytes are unwritten.
func pendingOf(g *Group) int64 {
	g.device.mu.Lock()
	defer g.device.mu.Unlock()
	return g.added - g.flushed
}
