package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// memoryFile is a temporary that can refuse.
type memoryFile struct {
	content           []byte
	noReads, noWrites bool
	reads, writes     int
	closed            bool
}

func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads++
	if f.noReads {
		return 0, errors.New("unreadable")
	}
	n := 0
	if off < int64(len(f.content)) {
		n = copy(p, f.content[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) WriteAt(p []byte, off int64) error {
	f.writes++
	if f.noWrites {
		return errors.New("full")
	}
	if need := int(off) + len(p); need > len(f.content) {
		f.content = append(f.content, make([]byte, need-len(f.content))...)
	}
	copy(f.content[off:], p)
	return nil
}

func (f *memoryFile) Close() error {
	f.closed = true
	return nil
}

// leaving counts how often a directory is left.
type leaving struct{ times map[*walk.Dir]int }

func (v leaving) Enter(*walk.Dir) bool               { return true }
func (v leaving) Entry(*walk.Dir, string, fsys.Kind) {}
func (v leaving) Leave(d *walk.Dir)                  { v.times[d]++ }
func (v leaving) Failed(*walk.Dir, string, error)    {}

func someDirs(t require.TestingT, v leaving, n, targets int) []*walk.Dir {
	var dirs []*walk.Dir
	for range n {
		root, err := fsys.OpenRoot(os.TempDir())
		require.NoError(t, err)
		d := walk.NewRoot(fsys.NewHandles(4).Root(root), fsys.Info{}, v)
		var counterparts destDirs
		for range targets {
			counterparts = append(counterparts, &destDir{src: d})
		}
		d.State = counterparts
		dirs = append(dirs, d)
	}
	return dirs
}

func drawLeader(t *rapid.T, dirs []*walk.Dir, target int, before *primary) primary {
	if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
		return primary{}
	}
	l := primary{name: strings.Repeat("n", rapid.SampledFrom([]int{1, 17, 255}).Draw(t, "name"))}
	if before != nil && rapid.Bool().Draw(t, "alike") {
		l = *before
	} else {
		l.size, l.mtime = rapid.Int64().Draw(t, "size"), fsys.Time{Sec: rapid.Int64().Draw(t, "sec"), Nsec: rapid.Int64Range(0, 999_999_999).Draw(t, "nsec")}
		switch rapid.IntRange(0, 3).Draw(t, "digests") {
		case 1:
			l.digests = hash.Digests{}
		case 2:
			l.digests = hash.Digests{[]byte(strings.Repeat("d", 32)), []byte(strings.Repeat("e", 64))}
		case 3:
			l.digests = hash.Digests{rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "digest")}
		}
	}
	l.expected, l.compared = rapid.Bool().Draw(t, "expected"), rapid.Bool().Draw(t, "compared")
	l.id = fsys.ID{Dev: rapid.Uint64().Draw(t, "dev"), Ino: rapid.Uint64().Draw(t, "ino")}
	l.held = rapid.SampledFrom(dirs).Draw(t, "dir")
	l.dd = l.held.State.(destDirs)[target]
	return l
}

// Groups are read as they were stored, whether in memory, in the file or refused by it. A
// directory is held while a primary link is in it.
func TestPendingLinksAreReadAsTheyWereStored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		targets := rapid.IntRange(1, 3).Draw(t, "targets")
		left := leaving{map[*walk.Dir]int{}}
		dirs := someDirs(t, left, 4, targets)
		file := &memoryFile{}
		p := newPendingLinks(targets, pendingLinksMemory, func() (spillFile, error) { return file, nil })
		p.limit = rapid.SampledFrom([]int{0, 300, 2000, 1 << 20}).Draw(t, "limit")
		model := map[fsys.ID]*linkGroup{}
		files := rapid.SampledFrom([]uint64{0, 1, 40}).Draw(t, "files")
		var out []*linkGroup // groups that a worker works on
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			file.noWrites = rapid.IntRange(0, 9).Draw(t, "full") == 0
			id := fsys.ID{Dev: rapid.Uint64Range(0, 1).Draw(t, "dev"), Ino: rapid.Uint64Range(0, files).Draw(t, "ino")}
			isOut := slices.ContainsFunc(out, func(g *linkGroup) bool { return g.id == id })
			if !isOut && len(out) < 3 {
				got, err := p.take(id)
				require.NoError(t, err)
				want := model[id]
				require.Equal(t, want == nil, got == nil)
				if got == nil {
					got = &linkGroup{id: id, primaries: make([]primary, targets)}
				} else {
					require.Equal(t, want.seen, got.seen)
					require.Equal(t, want.broken, got.broken)
					require.Equal(t, want.primaries, got.primaries)
				}
				delete(model, id)
				out = append(out, got)
			}
			if rapid.Bool().Draw(t, "stays out") {
				continue
			}
			i := rapid.IntRange(0, len(out)-1).Draw(t, "back")
			g := out[i]
			out = slices.Delete(out, i, i+1)
			g.seen++
			g.broken = rapid.Bool().Draw(t, "broken")
			if rapid.Bool().Draw(t, "change") {
				var before *primary
				for i := range g.primaries {
					if held := g.primaries[i].held; held != nil {
						held.Done()
					}
					g.primaries[i] = drawLeader(t, dirs, i, before)
					if held := g.primaries[i].held; held != nil {
						held.Hold()
						before = &g.primaries[i]
					}
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "complete") == 0 {
				g.release()
				continue
			}
			model[g.id] = &linkGroup{seen: g.seen, broken: g.broken, primaries: slices.Clone(g.primaries)}
			p.put(g)
			require.Equal(t, len(model), p.used)
		}
		for _, g := range out {
			g.release()
		}
		for _, d := range dirs {
			d.Done()
			_, holds := p.number[d]
			require.Equal(t, !holds, left.times[d] == 1, "left while it is held, or not left")
		}
		asked := p.file != nil
		p.close()
		require.Equal(t, asked, file.closed)
		for _, d := range dirs {
			require.Equal(t, 1, left.times[d])
		}
	})
}

// Many pending links use little memory, and all are found.
func TestManyPendingLinks(t *testing.T) {
	t.Parallel()
	left := leaving{map[*walk.Dir]int{}}
	dirs := someDirs(t, left, 1, 1)
	file := &memoryFile{}
	p := newPendingLinks(1, pendingLinksMemory, func() (spillFile, error) { return file, nil })
	p.limit = 100 << 10
	const n = 50_000
	digest := hash.Digests{make([]byte, 32)}
	for i := range uint64(n) {
		dirs[0].Hold()
		p.put(&linkGroup{id: fsys.ID{Dev: 1, Ino: i}, seen: 1, primaries: []primary{{
			dd: dirs[0].State.(destDirs)[0], held: dirs[0], name: fmt.Sprintf("file-%06d", i), digests: digest,
		}}})
	}
	require.LessOrEqual(t, cap(p.tail), p.limit)
	require.LessOrEqual(t, len(p.slots), 4*n)
	writes := file.writes
	for i := range uint64(n) {
		g, err := p.take(fsys.ID{Dev: 1, Ino: i})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("file-%06d", i), g.primaries[0].name)
		g.seen++
		if i%2 == 0 {
			p.put(g) // in its old place
		} else {
			g.release()
		}
	}
	require.LessOrEqual(t, file.writes, writes+n/2)
	require.LessOrEqual(t, len(file.content), n*(recordFixed+80))
	require.Equal(t, n/2, p.used)
	p.close()
	dirs[0].Done()
	require.Equal(t, 1, left.times[dirs[0]])
}

func TestPendingLinksOfAnUnreadableFile(t *testing.T) {
	t.Parallel()
	left := leaving{map[*walk.Dir]int{}}
	dirs := someDirs(t, left, 1, 1)
	for name, spoil := range map[string]func(f *memoryFile){
		"error":   func(f *memoryFile) { f.noReads = true },
		"cut":     func(f *memoryFile) { f.content = f.content[:placeUnit+2] },
		"zeros":   func(f *memoryFile) { clear(f.content) },
		"ones":    func(f *memoryFile) { f.content = []byte(strings.Repeat("\xff", len(f.content))) },
		"refusal": func(*memoryFile) {},
	} {
		t.Run(name, func(t *testing.T) {
			file := &memoryFile{}
			p := newPendingLinks(1, pendingLinksMemory, func() (spillFile, error) {
				if name == "refusal" {
					return nil, errors.New("none")
				}
				return file, nil
			})
			p.limit = 0
			for i := range uint64(2) {
				dirs[0].Hold()
				p.put(&linkGroup{id: fsys.ID{Ino: i}, primaries: []primary{{dd: dirs[0].State.(destDirs)[0], held: dirs[0], name: "n"}}})
			}
			spoil(file)
			if name == "refusal" { // it stays in memory
				g, err := p.take(fsys.ID{Ino: 0})
				require.NoError(t, err)
				g.release()
			} else { // the run copies each name separately and warns once
				l := linkGroups{groups: map[fsys.ID]*linkGroup{}, pendingLinks: p}
				for _, first := range []bool{true, false} {
					g, err := l.enter(fsys.ID{Ino: 0}, nil, 1)
					require.Equal(t, first, err != nil)
					require.Nil(t, g.primaries[0].held)
					delete(l.groups, g.id)
				}
			}
			p.close()
		})
	}
	dirs[0].Done()
	require.Equal(t, 1, left.times[dirs[0]], "held to the end, and not longer")
}
