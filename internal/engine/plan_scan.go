package engine

import (
	"fmt"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// Touched implements record.Interrupted.
func (untouched) Touched(string, fsys.Info) (digests hash.Digests, touched bool) { return nil, false }

// scanSource walks the source and adds its entries to the planner.
func (p *planning) scanSource() error {
	root, _, err := p.route.OpenSource()
	if err != nil {
		return err
	}
	o := shard.ScanOptions{
		Workers: walkers(p.opts.Workers), Filter: p.opts.Filter, Only: p.opts.Only, OneFileSystem: p.opts.OneFileSystem,
		Enter: func(d *walk.Dir) bool { return !p.isDestination(d) }, Wanted: p.found, ReplaceLinks: p.opts.Policy == policy.Always,
		Failed: func(path string, err error) { p.reportSource(path, failure.StageScan, err) }, SkipReserved: p.skipReserved,
	}
	for _, t := range p.targets {
		o.Targets, o.Made = append(o.Targets, t.Root), append(o.Made, t.rootOurs)
	}
	err = shard.Scan(p.ctx, root, p.planner, o)
	p.collector.await()
	if n := p.collector.summary.Reserved; n > 0 {
		p.report(event.Event{Kind: event.Warning, Path: p.collector.summary.ReservedAt[0], Err: fmt.Errorf("journals, markers and temporaries of unfinished copies are not copied; the source has %d", n)})
	}
	if err == nil {
		p.counters.ScanDone.Store(true)
	}
	return err
}

// found counts an entry of the source and reports whether it goes into a shard. Late files do
// not: Merge copies them.
func (p *planning) found(path string, info fsys.Info) bool {
	if info.Kind != fsys.Regular {
		return true
	}
	p.counters.TotalFiles.Add(1)
	counters.Grow(&p.counters.TotalBytes, info.Size)
	if p.late[path] {
		p.planner.AddLate(path)
		return false
	}
	return true
}
