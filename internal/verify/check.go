package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// job is a file that is read once, for every line that lists it.
type job struct {
	path    string
	literal string // a second spelling, to be tried where the first does not exist
	parts   []*part
}

// part is one line of a manifest on its way to a verdict, or something else to
// tell in its place.
type part struct {
	number    int64 // in the order of the manifests
	from      *source
	path      string
	digest    []byte
	algorithm hash.Algorithm

	verdict Verdict
	err     error
	bytes   int64
	cached  bool // it was to be read from the device, which cannot be said of it
	silent  bool // nothing to tell: it only has a number, or the run was stopped before
}

// worker checks one line after the other.
type worker struct {
	run  *run
	tree *tree // that look is in
	look *fsys.Finder
}

func (w *worker) close() {
	if w.look != nil {
		w.look.Close()
	}
}

func (w *worker) do(ctx context.Context, j *job) {
	if j.path == "" { // only something to tell
		return
	}
	defer w.run.counters.Files.Add(int64(len(j.parts)))
	f, info, err := w.open(j)
	if err != nil {
		verdict := Unreadable
		if errors.Is(err, fs.ErrNotExist) {
			verdict = Missing
		}
		j.each(func(p *part) { p.verdict, p.err = verdict, err })
		return
	}
	defer f.Close()
	pool := w.run.digests(j)
	set := pool.Get().(*digests)
	defer pool.Put(set)
	set.Reset()
	cache := w.run.opts.Cache
	n, fromDevice, err := w.run.pipe.ReadBack(ctx, f, info, set.Set, cache)
	have := set.Digests()
	j.each(func(p *part) {
		switch {
		case ctx.Err() != nil:
			p.silent = true
		case err != nil:
			p.verdict, p.err = Unreadable, err
		default:
			p.cached = cache != pipe.CacheAuto && !fromDevice
			if p == j.parts[0] {
				p.bytes = n
			}
			if !bytes.Equal(have[slices.Index(set.algorithms, p.algorithm)], p.digest) {
				p.verdict = Mismatch
			}
		}
	})
}

func (j *job) each(f func(*part)) {
	for _, p := range j.parts {
		f(p)
	}
}

// digests are computed from one read.
type digests struct {
	*hash.Set
	algorithms []hash.Algorithm
}

// digests returns the pool of those that a job needs.
func (r *run) digests(j *job) *sync.Pool {
	var algorithms []hash.Algorithm
	key := ""
	for _, p := range j.parts {
		if !slices.Contains(algorithms, p.algorithm) {
			algorithms = append(algorithms, p.algorithm)
			key += string(p.algorithm) + " "
		}
	}
	if pool, ok := r.sets.Load(key); ok {
		return pool.(*sync.Pool)
	}
	pool, _ := r.sets.LoadOrStore(key, &sync.Pool{New: func() any { return &digests{hash.NewSet(algorithms), algorithms} }})
	return pool.(*sync.Pool)
}

// open opens the file that a line means.
func (w *worker) open(j *job) (*fsys.File, fsys.Info, error) {
	if tree := j.parts[0].from.tree; w.tree != tree {
		w.close()
		w.tree = tree
		w.look = fsys.NewFinder(w.tree.root, max(fsys.OpenLimit()/8/w.run.workers, 2))
	}
	f, info, err := w.look.Open(j.path)
	for _, spelling := range j.otherSpellings(w.run.opts.ConvertPaths) {
		if !errors.Is(err, fs.ErrNotExist) && !systemIsWindows {
			break
		}
		other, otherInfo, otherErr := w.look.Open(spelling)
		if otherErr == nil || !errors.Is(otherErr, fs.ErrNotExist) {
			f, info, err = other, otherInfo, otherErr
			break
		}
	}
	if err == nil {
		return f, info, nil
	}
	if errors.Is(err, fs.ErrNotExist) && hasDrive(j.path) {
		err = errDrive
	}
	if errors.Is(err, fsys.ErrOutside) || errors.Is(err, errDrive) {
		err = fmt.Errorf("refused: %w", err)
	}
	return nil, info, err
}

const systemIsWindows = filepath.Separator == '\\'

var errDrive = errors.New("it names a drive")

// otherSpellings lists what the path may be spelled like in the tree.
func (j *job) otherSpellings(convert bool) (list []string) {
	if j.literal != "" {
		list = append(list, j.literal)
	}
	if convert && hasWindowsSeparators(j.path) {
		list = append(list, withSlashes(j.path))
	}
	return list
}

// hasWindowsSeparators reports whether a path may come from Windows: with "\",
// and without the "/" that it would have from here.
func hasWindowsSeparators(path string) bool {
	return strings.Contains(path, `\`) && !strings.Contains(path, "/")
}

func withSlashes(path string) string { return strings.ReplaceAll(path, `\`, "/") }

// hasDrive reports whether a path starts with a drive of Windows.
func hasDrive(path string) bool {
	if len(path) < 3 || path[1] != ':' || path[2] != '\\' && path[2] != '/' {
		return false
	}
	letter := path[0] | 0x20
	return 'a' <= letter && letter <= 'z'
}
