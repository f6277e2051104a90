package verify

import (
	"context"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// scan adds up the sizes of the files to check.
func (r *run) scan(ctx context.Context) (complete bool) {
	for _, t := range r.trees {
		look := fsys.NewFinder(t.root, fsys.FinderLimit())
		manifests := make([]*treeManifest, len(t.manifests)) // manifests with separate lookaheads
		for i, s := range t.manifests {
			manifests[i] = &treeManifest{tree: t, format: s.format, algorithm: s.algorithm, in: s.in, size: s.size, lines: s.lines}
		}
		for i, s := range manifests {
			_, _ = s.readLines(ctx, manifestsAhead(manifests[i+1:]), nil, func(j *job) { // the check reports errors
				if info, err := look.Lstat(j.path); err == nil && info.Kind == fsys.Regular {
					counters.Grow(&r.counters.TotalBytes, info.Size)
					counters.Grow(&t.progress.ReadBack.TotalBytes, info.Size)
				}
			})
		}
		look.Close()
	}
	return true
}
