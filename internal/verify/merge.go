package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// Merge reports the results of all shards of a planned verification in the same way as Run.
// All shards must be finished. o are the options of OptionsOfPlan. Merge reads the manifests
// again, because they define the order of the results. It reads no other file.
func Merge(ctx context.Context, o *Options, s *shard.Store, c *counters.Set) (*Summary, error) {
	r := &run{opts: o, counters: c, summary: &Summary{}}
	r.within = o.Manifest != "" && !filepath.IsAbs(o.Manifest)
	defer r.close()
	return r.execute(ctx, func() error {
		if err := r.checkManifests(s.Plan); err != nil {
			return err
		}
		results := &mergedResults{store: s}
		defer results.close()
		return r.replay(ctx, results)
	})
}

// checkManifests refuses manifests that are not those of the plan.
func (r *run) checkManifests(p *shard.Plan) error {
	if len(r.trees) != len(p.Targets) {
		return failure.Refuse("the plan checks %d directories, and %d are given", len(p.Targets), len(r.trees))
	}
	for i, t := range r.trees {
		if err := checkRoot(t, p.Targets[i].Root); err != nil {
			return err
		}
	}
	all, err := r.describeManifests()
	if err != nil {
		return err
	}
	for i, m := range all {
		if i >= len(p.Checks.Manifests) {
			return failure.Refuse("manifest %s is new since the plan was made; plan again", quote.Name(string(m.Path)))
		}
		was := p.Checks.Manifests[i]
		if m.Target != was.Target || m.Size != was.Size || m.SHA256 != was.SHA256 {
			return failure.Refuse("manifest %s has changed since the plan was made; plan again", quote.Name(string(was.Path)))
		}
	}
	if len(all) < len(p.Checks.Manifests) {
		return failure.Refuse("manifest %s is not there any more; plan again", quote.Name(string(p.Checks.Manifests[len(all)].Path)))
	}
	return nil
}

// replay reports the verdicts of all lines from the results.
func (r *run) replay(ctx context.Context, results *mergedResults) (err error) {
	order := newOrder(r.number(), heldLimit())
	for _, t := range r.trees {
		r.readLines(ctx, t, func(j *job) {
			if err == nil && j.path != "" {
				err = results.fill(j)
				r.counters.Files.Add(int64(len(j.parts)))
			}
			if err == nil && ctx.Err() == nil {
				r.collect(j, order)
			}
		})
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
	r.tasks = results.elapsed
	return results.end()
}

// mergedResults are the results of all shards, one after the other.
type mergedResults struct {
	store   *shard.Store
	next    int // index of the shard after the current one
	reader  *shard.ResultReader
	elapsed time.Duration // of the tasks so far
}

func (m *mergedResults) close() {
	if m.reader != nil {
		m.reader.Close()
		m.reader = nil
	}
}

// nextResult returns the next result, or io.EOF.
func (m *mergedResults) nextResult() (*shard.CheckResult, error) {
	for {
		if m.reader == nil {
			if m.next == len(m.store.Plan.Shards) {
				return nil, io.EOF
			}
			status, err := m.store.Status(m.next)
			if err == nil && status.Finished == nil {
				err = errors.New("it is not finished")
			}
			if err != nil {
				return nil, fmt.Errorf("shard %d: %w", m.next, err)
			}
			if m.reader, err = m.store.OpenResults(status.Finished); err != nil {
				return nil, err
			}
			m.elapsed += m.reader.Elapsed
			m.next++
		}
		result, err := m.reader.Next()
		if !errors.Is(err, io.EOF) {
			return result, err
		}
		m.close()
	}
}

// fill sets the next result in a job.
func (m *mergedResults) fill(j *job) error {
	result, err := m.nextResult()
	if errors.Is(err, io.EOF) {
		return errOtherResults
	}
	if err != nil {
		return err
	}
	if result.Number != j.parts[0].number || len(result.Lines) != len(j.parts) {
		return errOtherResults
	}
	j.meant, j.read, j.bytes, j.size = string(result.Spelling), result.Read, result.Bytes, result.Size
	j.mtime, j.cached = result.Mtime, result.Cached
	for i, p := range j.parts {
		if err := p.fill(&result.Lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// fill sets the verdict of a result in a line.
func (p *part) fill(line *shard.LineResult) error {
	p.algorithm = line.Algorithm
	if line.Cause != "" {
		p.err = errors.New(string(line.Cause))
	}
	for verdict, word := range lineVerdicts {
		if word == line.Verdict {
			p.verdict = verdict
			return nil
		}
	}
	return fmt.Errorf("a result has the unknown verdict %q", line.Verdict)
}

// end checks that no result is left.
func (m *mergedResults) end() error {
	_, err := m.nextResult()
	switch {
	case err == nil:
		return errOtherResults
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

var errOtherResults = errors.New("the results of the shards are not those of the manifests; plan again")
