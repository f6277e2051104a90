package engine

import (
	"path/filepath"
	"slices"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// Records are what a copy writes about its files.
type Records struct {
	Hashes []hash.Algorithm // empty to copy without hashing and without a manifest
	MHL    *MHL             // nil to write no ASC MHL histories
	// MediaList is nil to write no media hash lists of version 1. MHL and MediaList exclude
	// each other.
	MediaList *MediaList
	Manifest  string // path, absolute or relative to each destination; "" for the default name in each destination

	Bag *BagOptions // makes each destination a BagIt bag; nil for plain directories
}

// MHL makes a run write generations of ASC MHL histories.
type MHL struct {
	Creator mhl.Creator // an empty comment becomes "Copy of SRC to DST"
	Ignore  []string    // patterns in addition to those of the histories

	Hashes []hash.Algorithm // hashes that a generation records; all of them are in Options.Hashes
	// Lines is how many of Options.Hashes, counted from the first, also get a line manifest.
	Lines int
}

// MediaList makes a run write a media hash list of version 1 (classic MHL) into the root of
// each destination.
type MediaList struct {
	Creator classic.Creator  // texts of the list without the times
	Hashes  []hash.Algorithm // hashes in the list; all of them are in Options.Hashes
	Lines   int              // how many of Options.Hashes, counted from the first, also get a line manifest
}

// lines returns how many of Options.Hashes, counted from the first, get a line manifest.
func (o *Records) lines() int {
	switch {
	case o.MHL != nil:
		return o.MHL.Lines
	case o.MediaList != nil:
		return o.MediaList.Lines
	}
	return len(o.Hashes)
}

// BagOptions describe the tag files of new bags.
type BagOptions struct {
	Info  []bag.Field
	Agent string // the value of Bag-Software-Agent
}

// recorders returns the recorders that the user has asked for. payload is the directory of each
// destination that the copy goes to; "" for its root.
func (o *Options) recorders() (all []record.Recorder, payload string, err error) {
	if o.Bag != nil {
		lists := o.MHL != nil || o.MediaList != nil
		b, err := catalog.NewBags(o.Source, catalog.BagOptions{Info: o.Bag.Info, Agent: o.Bag.Agent, Lines: o.Manifest}, o.Hashes, lists, o.BackupDir != "", o.part())
		if err != nil {
			return nil, "", err
		}
		return []record.Recorder{b}, b.Payload(), nil
	}
	all = append(all, catalog.Lines{Hashes: o.Hashes[:o.lines()], Manifest: o.Manifest})
	if h := o.MHL; h != nil {
		all = append(all, catalog.NewHistories(h.Creator, h.Ignore, h.Hashes))
	}
	if l := o.MediaList; l != nil {
		all = append(all, &catalog.MediaLists{Creator: l.Creator, Hashes: l.Hashes})
	}
	return all, "", nil
}

// linesOf returns the recorder of line manifests; the zero value if there is none.
func linesOf(recorders []record.Recorder) (lines catalog.Lines) {
	for _, r := range recorders {
		if l, ok := r.(catalog.Lines); ok {
			lines = l
		}
	}
	return lines
}

// refuseSource lets each recorder refuse the source and the destinations.
func (r *run) refuseSource() error {
	about := &record.Run{
		FS: r.opts.FS, Source: r.opts.Source, Root: r.source, File: r.route.Name, BackupDir: r.opts.BackupDir, Hashes: r.opts.Hashes, Begun: r.begun,
		Wanted: r.opts.wanted, Scan: r.scanNames,
		OpenSource: func() (*fsys.Dir, error) {
			root, _, err := r.route.OpenSource() // the walk closes its own
			return root, err
		},
		Unfinished: func(dir *fsys.Dir) (logs int, own bool, err error) {
			source, err := r.route.SourcePath()
			if err != nil {
				return 0, false, err
			}
			return resume.CountLogs(dir, source)
		},
	}
	for _, d := range r.route.Destinations {
		about.Destinations = append(about.Destinations, placeOf(d))
	}
	for _, recorder := range r.recorders {
		if err := recorder.Refuse(about); err != nil {
			return err
		}
	}
	r.opts.Hashes = about.Hashes
	return nil
}

func placeOf(d route.Destination) record.Place {
	return record.Place{Given: d.Given, Dir: d.Dir, Outer: d.BagDir, Exists: d.Exists}
}

// inspect lets each recorder refuse a destination before it is opened.
func (r *run) inspect(t *target) error {
	for _, recorder := range r.recorders {
		if err := recorder.Inspect(placeOf(t.Destination.Destination)); err != nil {
			return err
		}
	}
	return nil
}

// openOuter opens the directory above the destination's root that has the records. If another directory
// has the root's name there now, the error is fsys.ErrMoved.
func (t *target) openOuter() (err error) {
	if t.BagDir == "" || t.Root == nil {
		return nil
	}
	if t.outer, err = t.FS.OpenTrustedRoot(t.BagDir); err != nil {
		return err
	}
	info, err := t.Root.Stat()
	if err != nil {
		return err
	}
	now, err := t.outer.Lstat(filepath.Base(t.Dir))
	if err == nil && now.ID != info.ID {
		err = fsys.ErrMoved
	}
	return err
}

// markerRoot returns the directory for the marker of an incomplete copy. In a bag that is the
// root of the bag, because the payload has only files of the source.
func (t *target) markerRoot() *fsys.Dir {
	if t.outer != nil {
		return t.outer
	}
	return t.Root
}

// addEmpty records an empty directory of the source. Only the collector calls it.
func (r *run) addEmpty(dir string) {
	for _, recorder := range r.recorders {
		recorder.Empty(dir)
	}
}

// warnWalked reports the warnings of recorders when all entries were recorded.
func (r *run) warnWalked() {
	r.collector.await()
	for _, recorder := range r.recorders {
		if err := recorder.Walked(); err != nil {
			r.report(event.Event{Kind: event.Warning, Err: err})
		}
	}
}

// scanNames calls found for each entry of the source, see record.Run.
func (r *run) scanNames(found func(path string, kind fsys.Kind) (enter bool)) (complete bool, err error) {
	root, _, err := r.route.OpenSource()
	if err != nil {
		return false, err
	}
	r.scan(r.ctx, root, walkers(r.opts.Workers), nameVisitor(found), nil)
	return r.ctx.Err() == nil, nil
}

// nameVisitor is called for each entry of the source.
type nameVisitor func(path string, kind fsys.Kind) (enter bool)

func (v nameVisitor) Enter(d *walk.Dir) bool { return d.Parent == nil || v(d.Path(), fsys.Directory) }

func (v nameVisitor) Entry(d *walk.Dir, name string, kind fsys.Kind) { v(d.Join(name), kind) }
func (nameVisitor) Leave(*walk.Dir)                                  {}
func (nameVisitor) Failed(*walk.Dir, string, error)                  {} // the copy reports it

// unlists reports whether a recorder wants no lines for the files of a directory.
func (r *run) unlists(d *walk.Dir) bool {
	return slices.ContainsFunc(r.recorders, func(recorder record.Recorder) bool { return recorder.Unlisted(d.Name, d.Parent) })
}

// holds reports whether a recorder itself copies a directory of the source.
func (r *run) holds(d *walk.Dir) bool {
	return slices.ContainsFunc(r.recorders, func(recorder record.Recorder) bool { return recorder.Holds(d.Name, d.Path) })
}

// closeRecorders closes what the recorders have opened.
func (r *run) closeRecorders() {
	for _, recorder := range r.recorders {
		recorder.Close()
	}
}

// linesMemory returns how many bytes the lines of the manifests may use in memory. If memory is
// short, the kernel needs most of it. The kernel holds the inodes and directory entries that a run
// opens, and the metadata that a journaling file system has not yet written.
func (r *run) linesMemory() int {
	if r.cache.Memory > 0 {
		return int(min(manifest.DefaultMemory, r.cache.Memory/32))
	}
	return manifest.DefaultMemory
}

// openRecords decides which records the run writes at the destination. In a dry run into a
// directory that does not exist, it only makes the refusals.
func (t *target) openRecords(r *run) (err error) {
	d := &record.Destination{
		FS:        t.FS,
		Source:    r.source,
		Root:      t.Root,
		Outer:     t.outer,
		Dir:       t.Dir,
		Given:     t.Given,
		Shown:     t.Shown,
		File:      t.Name,
		Hashes:    r.opts.Hashes[:r.listedHashes],
		More:      r.listedHashes < len(r.opts.Hashes),
		Durable:   r.opts.Sync != dest.SyncNone,
		KeepTimes: r.opts.Preserve&metadata.PreserveTimes != 0,
		Memory:    r.linesMemory() / len(r.route.Destinations),
		Spill:     t.NewSpill,
		ReadsBack: r.opts.Verify != VerifyOff,
		Report:    r.report,
	}
	if t.Journal != nil {
		d.Journal = t.Journal
	}
	if t.Root != nil {
		if d.Asides, err = resume.ReadAsides(t.Root, resume.JournalName(t.Name)); err != nil {
			return err
		}
	}
	d.Usual, d.Outside = t.ManifestPlace(linesOf(r.recorders).Manifest)
	t.records, err = record.Open(d, r.recorders...)
	return err
}
