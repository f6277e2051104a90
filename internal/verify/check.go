package verify

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// job is a file that is read once, for every line that lists it.
type job struct {
	path    string
	literal string // a second spelling, used if no file has the first one
	parts   []*part
	rest    bool // true if there is no file, only lines from parts[0] on that have no job

	meant  string // the spelling of the file that was found; "" if there is none or it is refused
	read   bool   // true if the file was read to the end
	bytes  int64  // number of bytes, if the file was read
	size   int64  // size of the file, if it was read
	mtime  fsys.Time
	info   fsys.Info // state of the file when it was opened; zero if it could not be opened
	broken bool      // true if the file cannot be read, because its device fails
	moving bool      // true if the file does not match and has changed since it was opened
	cached bool      // true if perhaps memory and not the device was read
}

// part is one line of a manifest that waits for its verdict, or another result to report.
type part struct {
	number int64 // place of a line in the order of the manifests
	from   *treeManifest
	expectation

	algorithm hash.Algorithm // algorithm of the first digest, or of the one that is wrong
	verdict   Verdict
	err       error
}

// worker does jobs one after the other.
type worker struct {
	run  *run
	tree *tree // the tree that look opens files in
	look *fsys.Finder
	pipe *pipe.Pipe           // the run's pipe, which also counts the bytes of tree
	sets map[string]*hash.Set // digests by the names of their algorithms
}

func (w *worker) close() {
	if w.look != nil {
		w.look.Close()
	}
}

// do checks the file of a job, and gives each part its verdict.
func (w *worker) do(ctx context.Context, j *job) {
	if j.rest {
		return
	}
	f, info, err := w.open(j)
	if err != nil {
		verdict := Unreadable
		if fsys.NoSuchFile(err) {
			verdict = Missing
		}
		j.broken = fsys.DeviceFailed(err)
		for _, p := range j.parts {
			p.verdict, p.err = verdict, err
		}
		return
	}
	w.compare(ctx, j, j.parts, f, info)
	if j.literal == "" || j.meant != j.path {
		return
	}
	wrong := slices.DeleteFunc(slices.Clone(j.parts), func(p *part) bool { return p.verdict != Mismatch })
	if len(wrong) == 0 {
		return
	}
	if f, info, err := w.look.Open(j.literal); err == nil { // both files exist
		first := j.info
		w.compare(ctx, j, wrong, f, info)
		if wrong[0].verdict == Match {
			j.meant = j.literal
		} else {
			j.info = first
		}
	}
}

// compare reads a file for some lines of a job, and closes it. It reads nothing if the size
// decides.
func (w *worker) compare(ctx context.Context, j *job, all []*part, f *fsys.File, info fsys.Info) {
	defer f.Close()
	j.info = info
	var lines []*part
	for _, p := range all {
		if !p.decideBySize(info.Size) {
			lines = append(lines, p)
		}
	}
	if len(lines) == 0 {
		return
	}
	set := w.digests(lines)
	set.Reset()
	cache := w.run.opts.Cache
	inMemory, known := true, false
	if cache == pipe.CacheAuto {
		inMemory, known = f.Cached(0, 0)
	}
	n, fromDevice, err := w.pipe.ReadBack(ctx, f, info, set, cache, nil)
	j.mtime = info.Mtime
	if err == nil {
		j.read = true
		j.size = n
		j.bytes += n
		j.cached = j.cached || !fromDevice && (inMemory || !known)
	}
	have := set.Digests()
	j.broken = j.broken || err != nil
	for _, p := range lines {
		if err != nil {
			p.verdict, p.err = Unreadable, err
		} else {
			p.decide(set.Algorithms, have)
		}
	}
	if slices.ContainsFunc(lines, func(p *part) bool { return p.verdict == Mismatch }) {
		now, err := f.Stat()
		j.moving = err != nil || now.Size != info.Size || now.Mtime != info.Mtime
	}
}

// decideBySize reports whether the size of the file is enough for a verdict.
func (p *part) decideBySize(size int64) bool {
	p.verdict, p.err = Match, nil
	if p.size >= 0 && p.size != size {
		p.verdict = Mismatch
		p.algorithm = ""
		return true
	}
	return len(p.digests) == 0
}

// decide compares the digests of the file with the listed ones.
func (p *part) decide(algorithms []hash.Algorithm, have hash.Digests) {
	p.verdict, p.algorithm = Match, p.digests[0].Algorithm
	for _, want := range p.digests {
		if !want.Matches(have[slices.Index(algorithms, want.Algorithm)]) {
			p.verdict, p.algorithm = Mismatch, want.Algorithm
			return
		}
	}
}

// digests returns the digests that the lines need.
func (w *worker) digests(lines []*part) *hash.Set {
	var algorithms []hash.Algorithm
	key := ""
	for _, p := range lines {
		for _, want := range p.digests {
			if !slices.Contains(algorithms, want.Algorithm) {
				algorithms = append(algorithms, want.Algorithm)
				key += string(want.Algorithm) + " "
			}
		}
	}
	d := w.sets[key]
	if d == nil {
		d = hash.NewSet(algorithms)
		w.sets[key] = d
	}
	return d
}

// open opens the file that a line means, and records the spelling of its name.
func (w *worker) open(j *job) (*fsys.File, fsys.Info, error) {
	if systemIsWindows && hasDrive(j.path) {
		return nil, fsys.Info{}, refusedPath(errDrive)
	}
	if tree := j.parts[0].from.tree; w.tree != tree {
		w.close()
		w.tree = tree
		w.look = fsys.NewFinder(w.tree.root, w.run.maxOpenPaths)
		w.pipe = w.run.pipe.Counting(&w.run.counters.Bytes, &tree.progress.ReadBack.Bytes)
	}
	j.meant = j.path
	f, info, err := w.look.Open(j.path)
	for _, spelling := range j.parts[0].otherSpellings(w.run.opts.ConvertPaths) {
		if !fsys.NoSuchFile(err) && !systemIsWindows {
			break
		}
		other, otherInfo, otherErr := w.look.Open(spelling)
		if otherErr == nil || !fsys.NoSuchFile(otherErr) {
			f, info, err = other, otherInfo, otherErr
			j.meant = spelling
			break
		}
	}
	if err == nil {
		return f, info, nil
	}
	kind := (*fsys.KindError)(nil)
	switch {
	case fsys.NoSuchFile(err) && hasDrive(j.path):
		err = refusedPath(errDrive)
	case errors.Is(err, fsys.ErrOutside):
		err = refusedPath(err)
	case errors.As(err, &kind) && strings.HasSuffix(j.path, "/"):
		err = errSlash
	default:
		return nil, info, err
	}
	j.meant = ""
	return nil, info, err
}

var (
	errDrive = errors.New("it names a drive")
	errSlash = errors.New("it has a slash at the end, as a directory has")
)

// refusedPath is the error of a path that verify does not open.
func refusedPath(err error) error { return fmt.Errorf("refused: %w", err) }

const systemIsWindows = filepath.Separator == '\\'

// otherSpellings returns other spellings that the path may have in the tree.
func (p *part) otherSpellings(convert bool) (list []string) {
	switch {
	case p.literal == "":
	case p.from.format == manifest.BagIt:
		list = manifest.BagItPaths(p.literal)[1:] // the first is p.path
	default:
		list = append(list, p.literal)
	}
	if convert && hasWindowsSeparators(p.path) {
		list = append(list, withSlashes(p.path))
	}
	return list
}

// hasWindowsSeparators reports whether a path may come from Windows: it has "\", but not
// the "/" of paths from other systems.
func hasWindowsSeparators(path string) bool {
	return strings.Contains(path, `\`) && !strings.Contains(path, "/")
}

func withSlashes(path string) string { return strings.ReplaceAll(path, `\`, "/") }

// hasDrive reports whether a path starts with a Windows drive.
func hasDrive(path string) bool {
	if len(path) < 3 || path[1] != ':' || path[2] != '\\' && path[2] != '/' {
		return false
	}
	letter := path[0] | 0x20
	return 'a' <= letter && letter <= 'z'
}
