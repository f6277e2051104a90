package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// RunShard checks the files of one shard of a planned verification, and records the results. o are
// the options of OptionsOfPlan with the paths of this machine and what belongs to each task. While
// another attempt at the shard is alive, RunShard waits. The summary has no manifests. The errors
// are those of Run; besides:
//
//   - a *shard.FinishedError says that the shard was finished before, without a failure;
//   - shard.ErrRightLost and shard.ErrSuperseded say that another attempt checks the shard.
func RunShard(ctx context.Context, o *Options, s *shard.Store, index int, a shard.AttemptOptions, c *counters.Set) (summary *Summary, err error) {
	r := &run{opts: o, counters: c, summary: &Summary{}}
	defer r.close()
	manifests, err := r.openPlanned(s.Plan)
	if err != nil {
		return nil, err
	}
	attempt, err := begin(ctx, s, index, a)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, attempt.End()) }()
	k := &task{run: r, store: s, index: index, manifests: manifests, results: attempt.NewResults()}
	defer k.results.Close()

	ctx, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		if err := attempt.KeepRenewed(ctx); err != nil {
			cancel(err)
		}
	})
	defer renewing.Wait()
	defer cancel(nil)
	begun := time.Now()
	c.Phase.Store(int32(counters.PhaseVerifying))
	err = k.check(ctx)
	r.summary.Elapsed = time.Since(begun)
	c.Phase.Store(int32(counters.End(ctx.Err() != nil)))
	if ctx.Err() != nil {
		return r.summary, context.Cause(ctx)
	}
	if err != nil {
		return r.summary, err
	}
	part, err := k.results.Finish(r.summary.Elapsed)
	if err != nil {
		return r.summary, err
	}
	k.record.Parts = []shard.Part{part}
	return r.summary, attempt.Finish(k.record)
}

// begin begins an attempt at a shard that is not finished, or has failures.
func begin(ctx context.Context, s *shard.Store, index int, a shard.AttemptOptions) (*shard.Attempt, error) {
	attempt, err := s.Begin(ctx, index, a)
	done, finished := errors.AsType[*shard.FinishedError](err)
	if finished && done.Record.Failures+done.Record.Mismatches > 0 {
		a.Again, finished = true, false
		attempt, err = s.Begin(ctx, index, a)
	}
	if err == nil || finished || ctx.Err() != nil {
		return attempt, err
	}
	return nil, failure.Refuse("shard %d: %s", index, quote.Text(err.Error()))
}

// openPlanned opens the trees of a plan. It returns the manifests of the plan without opening
// them: a shard has their lines.
func (r *run) openPlanned(p *shard.Plan) (manifests []*treeManifest, err error) {
	if len(r.opts.Paths) != len(p.Targets) {
		return nil, failure.Refuse("the plan checks %d directories, and %d are given", len(p.Targets), len(r.opts.Paths))
	}
	for i, given := range r.opts.Paths {
		t := &tree{given: given}
		r.trees = append(r.trees, t)
		if t.root, err = r.opts.FS.OpenLookup(given); err == nil {
			t.info, err = t.root.Stat()
		}
		if err != nil {
			return nil, failure.Refuse("%s: %s", quote.Name(given), route.Reason(err))
		}
		if err := checkRoot(t, p.Targets[i].Root); err != nil {
			return nil, err
		}
	}
	for _, m := range p.Checks.Manifests {
		s := &treeManifest{tree: r.trees[m.Target], shown: string(m.Path)}
		if m.BagIt {
			s.format = manifest.BagIt
		}
		manifests = append(manifests, s)
	}
	return manifests, nil
}

// checkRoot refuses another directory than that of the plan. The device number of a mount differs
// between machines.
func checkRoot(t *tree, planned shard.Root) error {
	if t.info.ID.Ino != planned.Ino {
		return failure.Refuse("%s is not the directory of the plan: it is not mounted on this machine, or it is another one", quote.Name(t.given))
	}
	return nil
}

// task checks one shard.
type task struct {
	run       *run
	store     *shard.Store
	index     int
	manifests []*treeManifest // by their index in the plan
	results   *shard.ResultWriter
	record    shard.Finished
}

// check checks the files of the shard and writes the results.
func (k *task) check(ctx context.Context) error {
	reader, err := k.store.OpenChecks(k.index)
	if err != nil {
		return err
	}
	defer reader.Close()
	r := k.run
	r.counters.TotalBytes.Add(k.store.Plan.Shards[k.index].Bytes) // one command may check several shards
	r.counters.ScanDone.Store(true)
	count := r.divideWorkers(1)
	jobs, results := make(chan *job, 4*count), make(chan *job, 4*count)
	var workers sync.WaitGroup
	for range count {
		workers.Go(func() { r.work(ctx, jobs, results) })
	}
	var readErr error
	go func() {
		readErr = k.sendJobs(ctx, reader, jobs)
		close(jobs)
		workers.Wait()
		close(results)
	}()
	var putErr error
	for j := range results { // to the end, also after an error
		if ctx.Err() == nil && putErr == nil {
			putErr = k.collect(j)
		}
	}
	return errors.Join(readErr, putErr)
}

// sendJobs makes jobs of the checks of the shard.
func (k *task) sendJobs(ctx context.Context, reader *shard.CheckReader, jobs chan<- *job) error {
	for place := int64(0); ctx.Err() == nil; place++ {
		c, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("shard %d of the plan: %w", k.index, err)
		}
		j := &job{path: string(c.Path), literal: string(c.Literal), place: place}
		for _, line := range c.Lines {
			x := expectation{path: j.path, literal: j.literal, size: line.Size}
			for _, d := range line.Digests {
				x.digests = append(x.digests, d.Expected())
			}
			j.parts = append(j.parts, &part{number: line.Number, from: k.manifests[line.Manifest], expectation: x})
		}
		k.run.counters.TotalFiles.Add(int64(len(j.parts)))
		jobs <- j
	}
	return nil
}

// collect counts, reports and records a finished job.
func (k *task) collect(j *job) error {
	r := k.run
	r.countRead(j)
	failed, differs := false, false
	j.each(func(p *part) {
		failed = failed || p.verdict == Unreadable
		differs = differs || p.verdict == Mismatch || p.verdict == Missing && !r.opts.IgnoreMissing
		if r.account(p) {
			r.reportPart(p)
		}
	})
	if failed {
		k.record.Failures++
	}
	if differs {
		k.record.Mismatches++
	}
	return k.results.Put(j.place, resultOf(j))
}

// lineVerdicts are the names of the verdicts in results.
var lineVerdicts = map[Verdict]string{Match: "match", Mismatch: "mismatch", Missing: "missing", Unreadable: "unreadable"}

// resultOf returns the result of a job.
func resultOf(j *job) *shard.CheckResult {
	result := &shard.CheckResult{
		Number: j.parts[0].number, Spelling: shard.Text(j.meant), Read: j.read, Bytes: j.bytes,
		Size: j.size, Mtime: j.mtime, Cached: j.cached,
	}
	for _, p := range j.parts {
		line := shard.LineResult{Verdict: lineVerdicts[p.verdict], Algorithm: p.algorithm}
		if p.err != nil {
			line.Cause = shard.Text(p.err.Error())
		}
		result.Lines = append(result.Lines, line)
	}
	return result
}
