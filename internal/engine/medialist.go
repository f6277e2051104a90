package engine

import (
	"time"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// MediaList makes a run write a media hash list of version 1 (classic MHL) into the root of
// each destination.
type MediaList struct {
	Creator classic.Creator  // without the times
	Hashes  []hash.Algorithm // hashes in the list; all of them are in Options.Hashes
	Lines   int              // how many of Options.Hashes, counted from the first, also get a line manifest
}

// lines returns how many of Options.Hashes, counted from the first, get a line manifest.
func (o *Options) lines() int {
	switch {
	case o.MHL != nil:
		return o.MHL.Lines
	case o.MediaList != nil:
		return o.MediaList.Lines
	}
	return len(o.Hashes)
}

// refuseNames walks the source and refuses it if a media hash list cannot represent the name
// of a file.
func (r *run) refuseNames() error {
	if r.opts.MediaList == nil {
		return nil
	}
	root, _, err := r.route.OpenSource()
	if err != nil {
		return failure.Refuse("source %s: %s", quoteName(r.opts.Source), err)
	}
	var names catalog.MediaListNames
	list := walk.Entries(func(d *walk.Dir, name string, kind fsys.Kind) {
		if kind == fsys.Regular {
			names.Add(d.Join(name))
		}
	})
	r.scan(r.ctx, root, walkers(r.opts.Workers), list, nil)
	if r.ctx.Err() != nil { // a run that was stopped copies nothing
		return nil
	}
	return names.Refusal()
}

// mediaListCreator returns the creator of the media hash lists.
func (r *run) mediaListCreator() classic.Creator {
	c := r.opts.MediaList.Creator
	c.Begun = time.Unix(r.begun.Sec, r.begun.Nsec)
	return c
}
