package engine

import (
	"slices"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
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

// openRecords decides which records the run writes at the destination. In a dry run into a
// directory that does not exist, it only makes the refusals.
func (t *target) openRecords(r *run) (err error) {
	d := &record.Destination{
		FS:        t.FS,
		Source:    r.source,
		Root:      t.Root,
		Dir:       t.Dir,
		Given:     t.Given,
		Shown:     t.Shown,
		File:      t.Name,
		Hashes:    r.opts.Hashes[:r.listedHashes],
		More:      r.listedHashes < len(r.opts.Hashes),
		Durable:   r.opts.Sync != dest.SyncNone,
		KeepTimes: r.opts.Preserve&metadata.PreserveTimes != 0,
		Memory:    r.linesMemory() / len(r.route.Destinations),
		Spill:     t.newSpill,
		ReadsBack: r.opts.Verify != VerifyOff,
		Report:    r.report,
	}
	if t.journal != nil {
		d.Journal = t.journal
	}
	if t.Root != nil {
		if d.Asides, err = resume.ReadAsides(t.Root, resume.JournalName(t.Name)); err != nil {
			return err
		}
	}
	d.Usual, d.Outside = t.ManifestPlace(r.opts.Manifest)
	t.records, err = record.Open(d, r.recorders(t)...)
	return err
}

// recorders returns the recorders for a destination.
func (r *run) recorders(t *target) (all []record.Recorder) {
	if r.bagMode != bagNone {
		return []record.Recorder{t.bagRecorder(r)}
	}
	all = append(all, catalog.Lines{Hashes: r.opts.Hashes[:min(r.opts.lines(), r.listedHashes)]})
	if r.histories != nil {
		all = append(all, catalog.History{Source: r.histories.source, Dest: func(*record.Destination) (*mhl.Tree, mhl.Order) { return r.histories.of(r, t) }})
	}
	if o := r.opts.MediaList; o != nil {
		all = append(all, catalog.MediaList{Creator: r.mediaListCreator(), Hashes: o.Hashes})
	}
	return all
}
