package engine

import (
	"slices"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/hash"
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
		if usual, _ := d.ManifestPlace(linesOf(r.recorders).Manifest); usual != "" && !slices.Contains(o.Names, usual) {
			o.Names = append(o.Names, usual)
		}
	}
	for _, recorder := range r.recorders {
		if h, ok := recorder.(*catalog.Histories); ok {
			o.Histories = h
		}
	}
	var problems []catalog.Problem
	r.manifests, problems = catalog.OpenSource(r.source, o)
	if r.validates {
		r.collector.read = r.manifests
	}
	for _, p := range problems {
		r.reportProblem(p)
	}
}

// findBag reports whether the source is a bag whose manifests the run uses, and which known hashes
// these have. It refuses a bag that Sealift cannot read.
func (r *run) findBag() (hashes []hash.Algorithm, isBag bool, err error) {
	if r.route.Name != "" || r.listedHashes == 0 || r.opts.SourceManifest == SourceManifestIgnore {
		return nil, false, nil
	}
	return catalog.FindBag(r.source, r.opts.Source)
}
