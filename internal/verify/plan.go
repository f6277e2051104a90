package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// PlanOptions describe how Plan splits a verification into shards.
type PlanOptions struct {
	Into      string // the directory of the plan
	Shards    int    // number of shards; 0 to choose by the trees
	ShardSize int64  // mean bytes of a shard; 0 to choose by the trees
	Sealift   string // the version of the program
}

// Plan splits the verification that o describes into shards and writes the plan. It writes nothing
// to the directories that are checked. The error is a *failure.RefusedError if there is nothing to
// check or no place for the plan, and the cause of ctx's end if Plan was stopped.
func Plan(ctx context.Context, o *Options, into PlanOptions, c *counters.Set) (*shard.Plan, error) {
	if o.Only != nil || o.Manifest == "-" {
		return nil, failure.Refuse("--files-from, and a manifest from standard input, cannot be planned: the merge reads them again; use filters, or a file")
	}
	absolute := *o
	absolute.Paths = nil
	for _, given := range o.Paths {
		if info, err := os.Stat(given); err == nil && !info.IsDir() {
			return nil, failure.Refuse("%s is not a directory; to check it against one manifest, use --manifest", quote.Name(given))
		}
		path, err := fsys.AbsolutePath(given)
		if err != nil {
			return nil, err
		}
		absolute.Paths = append(absolute.Paths, path)
	}
	if _, err := os.Stat(o.Manifest); o.Manifest != "" && err == nil { // else it is below each directory
		if absolute.Manifest, err = fsys.AbsolutePath(o.Manifest); err != nil {
			return nil, err
		}
	}
	path, err := route.PlanDirOutside(into.Into, absolute.Paths)
	if err != nil {
		return nil, err
	}
	r := &run{opts: &absolute, counters: c, summary: &Summary{}}
	defer r.close()
	c.Phase.Store(int32(counters.PhaseScanning))
	if err := r.openTrees(ctx); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	} else if err != nil {
		return nil, err
	}
	dir, err := openInto(o.FS, path)
	if err != nil {
		return nil, failure.Refuse("plan directory %s: %s", quote.Name(into.Into), route.Reason(err))
	}
	defer dir.Close()
	lock, err := shard.Lock(dir)
	if err != nil {
		return nil, failure.Refuse("plan directory %s: %s", quote.Name(into.Into), route.Reason(err))
	}
	if lock != nil {
		defer lock.Unlock()
	}
	plan, err := r.writePlan(ctx, dir, into)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c.Phase.Store(int32(counters.End(err != nil)))
	return plan, err
}

// openInto opens the directory of the plan. If it does not exist, openInto creates it so that
// no other user may read it.
func openInto(system *fsys.FS, path string) (*fsys.Dir, error) {
	dir, err := system.OpenTrustedRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		if dir, err = makeInto(system, path); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if _, err := shard.Inspect(dir); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func makeInto(system *fsys.FS, path string) (*fsys.Dir, error) {
	if _, err := fsys.MakeDirs(filepath.Dir(path)); err != nil {
		return nil, err
	}
	parent, err := system.OpenTrustedRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := parent.Mkdir(filepath.Base(path)); err != nil {
		return nil, err
	}
	if err := parent.SyncToDrive(); err != nil {
		return nil, err
	}
	return parent.OpenDir(filepath.Base(path))
}

// writePlan writes the plan of the open trees.
func (r *run) writePlan(ctx context.Context, dir *fsys.Dir, into PlanOptions) (*shard.Plan, error) {
	o := r.opts
	po := shard.PlanOptions{Kind: shard.KindVerify, Sealift: into.Sealift, Shards: into.Shards, ShardSize: into.ShardSize}
	po.Copy.Rules = shard.RulesOf(o.Filter)
	for _, t := range r.trees {
		po.Targets = append(po.Targets, shard.Target{Root: shard.RootOf(t.given, t.info)})
	}
	po.Source = po.Targets[0].Root
	manifests, err := r.describeManifests()
	if err != nil {
		return nil, err
	}
	p, err := shard.NewPlanner(dir, po)
	if err != nil {
		return nil, failure.Refuse("plan directory %s: %s", quote.Name(into.Into), route.Reason(err))
	}
	defer p.Close()
	if err := r.addChecks(ctx, p); err != nil {
		return nil, err
	}
	p.LeftOut.Store(r.summary.LeftOut)
	return p.WriteChecks(ctx, &shard.Checks{
		Manifest: shard.Text(o.Manifest), ConvertPaths: o.ConvertPaths, IgnoreMissing: o.IgnoreMissing,
		Strict: o.Strict, Unlisted: o.Unlisted, Manifests: manifests,
	})
}

// describeManifests describes the manifests of all trees, in the order of the trees.
func (r *run) describeManifests() (all []shard.Manifest, err error) {
	for i, t := range r.trees {
		for _, s := range t.manifests {
			digest := sha256.New()
			size, err := io.Copy(digest, io.NewSectionReader(s.in, 0, s.size))
			if err != nil {
				return nil, refused(s.shown, err)
			}
			all = append(all, shard.Manifest{
				Target: i, Path: shard.Text(s.shown), BagIt: s.format == manifest.BagIt,
				Size: size, SHA256: hex.EncodeToString(digest.Sum(nil)),
			})
		}
	}
	return all, nil
}

// addChecks adds every file that the manifests list, in their order.
func (r *run) addChecks(ctx context.Context, p *shard.Planner) (err error) {
	r.number()
	first := 0 // index of the tree's first manifest
	for _, t := range r.trees {
		index := map[*treeManifest]int{}
		for i, s := range t.manifests {
			index[s] = first + i
		}
		first += len(t.manifests)
		look := fsys.NewFinder(t.root, min(max(fsys.OpenLimit()/16, 1), 16))
		r.readLines(ctx, t, func(j *job) {
			switch {
			case err != nil:
			case j.path != "":
				err = p.AddCheck(checkOf(j, index), j.sizeIn(look, r.opts.ConvertPaths))
			default:
				for _, end := range j.parts { // of a manifest that has changed while it was read
					if !end.silent && end.number >= t.first+int64(len(t.notes)) {
						err = fmt.Errorf("%s: %w", quote.Name(end.from.shown), end.err)
					}
				}
			}
		})
		look.Close()
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	return nil
}

// sizeIn returns the size of the file in its tree, 0 if there is none. It only balances shards.
func (j *job) sizeIn(look *fsys.Finder, convert bool) int64 {
	for _, path := range append([]string{j.path}, j.otherSpellings(convert)...) {
		if info, err := look.Lstat(path); err == nil && info.Kind == fsys.Regular {
			return info.Size
		}
	}
	return 0
}

// checkOf returns the record of a job in a shard.
func checkOf(j *job, index map[*treeManifest]int) *shard.Check {
	c := &shard.Check{Path: shard.Text(j.path), Literal: shard.Text(j.literal)}
	for _, p := range j.parts {
		line := shard.CheckLine{Number: p.number, Manifest: index[p.from], Size: p.size, Digests: []shard.CheckDigest{}}
		for _, d := range p.digests {
			line.Digests = append(line.Digests, shard.NewCheckDigest(d))
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// OptionsOfPlan returns the options of the verification that was planned. Its rules are added to
// rules, which has to be empty. Options about the machine belong to each task.
func OptionsOfPlan(p *shard.Plan, rules *filter.List) (*Options, error) {
	if p.Kind != shard.KindVerify {
		return nil, errors.New("it is not the plan of a verification")
	}
	c := p.Checks
	o := &Options{
		Manifest: string(c.Manifest), ConvertPaths: c.ConvertPaths, IgnoreMissing: c.IgnoreMissing,
		Strict: c.Strict, Unlisted: c.Unlisted,
	}
	for _, t := range p.Targets {
		o.Paths = append(o.Paths, string(t.Path))
	}
	if len(p.Options.Rules) > 0 {
		o.Filter = rules
	}
	return o, p.Options.AddRules(rules)
}
