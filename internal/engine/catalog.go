package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/timing"
)

// openManifests opens the manifests in the source, and reports those that it cannot use.
func (r *run) openManifests() {
	o := catalog.SourceOptions{
		Hashes: r.opts.Hashes,
		File:   r.route.Name,
		Check:  r.opts.SourceManifest != SourceManifestIgnore && r.rules.completes, // a shard already contains the listed digests
		Bag:    r.validates,
	}
	for _, d := range r.route.Destinations {
		if r.bagMode != bagNone {
			break // --manifest names a file beside the payload
		}
		if usual, _ := d.ManifestPlace(r.opts.Manifest); usual != "" && !slices.Contains(o.Names, usual) {
			o.Names = append(o.Names, usual)
		}
	}
	if r.histories != nil {
		o.Histories = r.histories.source
	}
	var problems []catalog.Problem
	r.manifests, problems = catalog.OpenSource(r.source, o)
	for _, p := range problems {
		r.reportProblem(p)
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

// openCatalog decides which manifests the run writes at the destination. In a dry run into a
// directory that does not exist, it only makes the refusals.
func (t *target) openCatalog(r *run) (err error) {
	o := catalog.Options{
		FS:        t.FS,
		Hashes:    r.opts.Hashes[:r.listedHashes],
		File:      t.Name,
		Shown:     t.Shown,
		Durable:   r.opts.Sync != dest.SyncNone,
		KeepTimes: r.opts.Preserve&metadata.PreserveTimes != 0,
		Memory:    r.linesMemory() / len(r.route.Destinations),
		Spill:     t.newSpill,
		MediaList: r.mediaListOf(t),
		Unlined:   r.listedHashes - min(r.opts.lines(), r.listedHashes),
		ReadsBack: r.opts.Verify != VerifyOff,
	}
	if t.journal != nil {
		o.Journal = t.journal
	}
	if t.Root != nil {
		if o.Asides, err = resume.ReadAsides(t.Root, resume.JournalName(t.Name)); err != nil {
			return err
		}
	}
	if r.histories != nil {
		o.History = r.histories.of(r, t)
	}
	if o.Bag = t.bagOptions(r); o.Bag == nil {
		o.Usual, o.Outside = t.ManifestPlace(r.opts.Manifest)
	}
	c, err := catalog.Open(t.Root, r.manifests, o)
	if err != nil {
		return err
	}
	t.names = c
	if t.Root == nil {
		c.Close()
		return nil
	}
	t.catalog = c
	return nil
}

// digestFile reads a regular file.
func (r *run) digestFile(dir *fsys.Dir, name string, activity *timing.Activity) (fsys.Info, hash.Digests, error) {
	f, info, err := dir.OpenRegular(name)
	if err != nil {
		return info, nil, err
	}
	defer f.Close()
	activity.At(timing.Source)
	set := hash.NewSet(r.opts.Hashes)
	_, err = io.CopyBuffer(set, f.Reader(info.Size), make([]byte, r.opts.BlockSize))
	return info, set.Digests(), err
}

// isManifestSomewhere reports whether an entry of the source has the path of a manifest that this run
// writes at a destination.
func (r *run) isManifestSomewhere(e *entry) bool {
	if e.Dir.Parent != nil && r.opts.Manifest == "" {
		return false
	}
	return slices.ContainsFunc(r.targets, func(t *target) bool { return t.isManifest(e) })
}

func (t *target) isManifest(e *entry) bool { return t.names != nil && t.names.IsManifest(e.Path) }

// guards reports whether the destination has an own manifest of an earlier run at the path of an
// entry, which no entry of the source replaces.
func (t *target) guards(e *entry) bool { return t.names != nil && t.names.Guards(e.Path) }

// warnStale warns of manifests that Sealift did not write and therefore does not change, if they
// list files that this run has replaced.
func (r *run) warnStale(t *target) {
	stale, err := t.catalog.Stale()
	if err != nil {
		r.report(event.Event{Kind: event.Warning, Target: t.Given, Err: fmt.Errorf("cannot check which other manifests are out of date now: %w", err)})
	}
	for _, s := range stale {
		lines := "1 of its lines is"
		if s.Lines > 1 {
			lines = fmt.Sprintf("%d of its lines are", s.Lines)
		}
		r.report(event.Event{Kind: event.Warning, Path: s.Path, Target: t.Given, Err: errors.New(lines + " out of date, because this copy replaced the files; it was left unchanged")})
	}
}
