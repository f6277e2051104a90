package sum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// mediaList is a media hash list that the run adds to the root of a tree. Existing lists
// are files like others.
type mediaList struct {
	root  *fsys.Dir
	given string // the directory as the user named it
	base  string // its name
	begun time.Time
}

// openMediaList finds the place of the list, and refuses a tree with names that it cannot hold.
func (r *run) openMediaList(ctx context.Context, args []argument) (*mediaList, error) {
	if !isTree(args) {
		return nil, failure.Refuse("--mhl needs one directory, in which the media hash list is written")
	}
	given := args[0].given
	absolute, err := filepath.Abs(given)
	if err != nil {
		return nil, failure.Refuse("%s: %s", quote.Name(given), err)
	}
	l := &mediaList{given: given, base: filepath.Base(absolute), begun: time.Now()}
	if strings.ContainsRune(l.base, filepath.Separator) { // the root of a file system
		l.base = "root"
	}
	if l.root, err = r.opts.FS.OpenRoot(given); err != nil {
		return nil, failure.Refuse("%s: %s", quote.Name(given), fsys.BareError(err))
	}
	if err = l.tryWriting(); err == nil {
		err = r.refuseNames(ctx, args[0])
	}
	if err != nil {
		l.root.Close()
		return nil, err
	}
	return l, nil
}

// tryWriting makes a file and removes it: that the directory is read-only must not turn
// out when hours of hashing are over.
func (l *mediaList) tryWriting() error {
	trial, err := l.root.Create(false)
	if err != nil {
		return failure.Refuse("%s: no media hash list can be written there: %s", quote.Name(l.given), fsys.BareError(err))
	}
	trial.Abort()
	return nil
}

// maxNamesShown is how many names a refusal has at most.
const maxNamesShown = 20

// refuseNames returns an error if the tree has files with names that no XML document can hold.
func (r *run) refuseNames(ctx context.Context, a argument) error {
	v := &nameVisitor{}
	if err := r.walk(ctx, r.handles[1], a, v, walk.Options{Workers: 1, SkipReserved: func(*walk.Dir, string) {}}); err != nil {
		return failure.Refuse("%s: %s", quote.Name(a.given), fsys.BareError(err))
	}
	if v.count == 0 {
		return nil
	}
	slices.Sort(v.names)
	text := strings.Join(v.names, ", ")
	if more := v.count - len(v.names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return failure.Refuse("a media hash list cannot hold these names, because they are not UTF-8 or have control characters: %s; rename the files, or write lines (--manifest)", text)
}

// nameVisitor collects names that a media hash list cannot hold.
type nameVisitor struct {
	mu    sync.Mutex
	count int
	names []string // quoted
}

// Enter implements walk.Visitor.
func (v *nameVisitor) Enter(*walk.Dir) bool { return true }

// Leave implements walk.Visitor.
func (v *nameVisitor) Leave(*walk.Dir) {}

// Failed implements walk.Visitor. The walk that hashes reports the failure.
func (v *nameVisitor) Failed(*walk.Dir, string, error) {}

// Entry implements walk.Visitor.
func (v *nameVisitor) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	path := d.Join(name)
	if kind != fsys.Regular || classic.CanHold(path) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.count++; len(v.names) < maxNamesShown {
		v.names = append(v.names, quote.Name(path))
	}
}

// write writes the list, which appears when it is complete.
func (l *mediaList) write(r *run) error {
	if err := r.complete(); err != nil {
		return fmt.Errorf("media hash list: %w", err)
	}
	format := manifest.ClassicMHL{Creator: *r.opts.MediaList}
	format.Creator.Begun, format.Creator.Finished = l.begun, time.Now()
	compose := func(to io.Writer) (manifest.Counts, error) {
		return r.builder.Write(to, manifest.Document{Format: format})
	}
	name, err := l.freeName()
	if err == nil {
		var written catalog.Written
		if written, err = catalog.CreateFile(l.root, name, compose); err == nil {
			r.summary.Manifest = filepath.Join(l.given, name)
			r.summary.Lines, r.summary.SHA256 = written.Lines, written.SHA256
			return nil
		}
	}
	return fmt.Errorf("media hash list %s: %w", quote.Name(filepath.Join(l.given, name)), err)
}

// freeName returns the name of the list: a second one within a second has a number.
func (l *mediaList) freeName() (string, error) {
	name := classic.FileName(l.base, l.begun)
	stem := strings.TrimSuffix(name, classic.Extension)
	for n := 2; ; n++ {
		_, err := l.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return name, err
		}
		name = fmt.Sprintf("%s_%d%s", stem, n, classic.Extension)
	}
}
