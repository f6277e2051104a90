package sum

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// MediaList requests a media hash list of a directory.
type MediaList struct {
	Creator classic.Creator // texts of the list without the times
	Hashes  []hash.Algorithm
}

// mediaList is a media hash list that the run adds to the root of a tree.
type mediaList struct {
	root  *fsys.Dir
	given string // the directory that the user gave
	list  catalog.MediaList
}

// openMediaList finds the directory of the list, and refuses a tree with names that the
// list cannot hold.
func (r *run) openMediaList(ctx context.Context, args []argument) (*mediaList, error) {
	if !isTree(args) {
		return nil, failure.Refuse("--mhl needs one directory, in which the media hash list is written")
	}
	given := args[0].given
	absolute, err := filepath.Abs(given)
	if err != nil {
		return nil, failure.Refuse("%s: %s", quote.Name(given), err)
	}
	o := r.opts.MediaList
	creator := o.Creator
	creator.Begun = time.Now()
	l := &mediaList{given: given, list: catalog.MediaList{Dir: absolute, Creator: creator, Hashes: o.Hashes, Durable: true}}
	if l.root, err = r.opts.FS.OpenTrustedRoot(given); err != nil {
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

// tryWriting creates a file and removes it. So a read-only directory is an error before
// hours of hashing, not after them.
func (l *mediaList) tryWriting() error {
	trial, err := l.root.Create(false)
	if err != nil {
		return failure.Refuse("%s: no media hash list can be written there: %s", quote.Name(l.given), fsys.BareError(err))
	}
	trial.Abort()
	return nil
}

// refuseNames returns an error if the tree has files with names that no list can hold.
func (r *run) refuseNames(ctx context.Context, a argument) error {
	var names catalog.MediaListNames
	list := walk.Entries(func(d *walk.Dir, name string, kind fsys.Kind) {
		if kind == fsys.Regular {
			names.Add(d.Join(name))
		}
	})
	if err := r.walk(ctx, r.handles[1], a, list, walk.Options{Workers: 1, SkipReserved: func(*walk.Dir, string) {}}); err != nil {
		return failure.Refuse("%s: %s", quote.Name(a.given), fsys.BareError(err))
	}
	return names.Refusal()
}

// write writes the list, which gets its name when it is complete.
func (l *mediaList) write(r *run) error {
	if err := r.complete(); err != nil {
		return fmt.Errorf("media hash list: %w", err)
	}
	written, err := l.list.Write(l.root, r.builder)
	shown := filepath.Join(l.given, written.Path)
	if err != nil {
		return fmt.Errorf("media hash list %s: %w", quote.Name(shown), err)
	}
	written.Path = shown
	r.summary.List = &written
	return nil
}
