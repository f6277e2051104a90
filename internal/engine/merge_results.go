package engine

import (
	"context"
	"fmt"
	"time"
)

// ShardResult is what the task that finished a shard has counted.
type ShardResult struct {
	Files, Bytes               int64 // copied, as in Summary
	ResumedFiles, ResumedBytes int64 // that earlier attempts had copied
	// Begun and Ended are the time of that task, by the clock of its machine.
	Begun, Ended time.Time
}

// Result returns the result of a shard, or nil if it is unknown.
func (s *MergeSummary) Result(index int) *ShardResult {
	if index < len(s.Results) {
		return s.Results[index]
	}
	return nil
}

// readResults reads the results of the finished shards.
func (o *MergeOptions) readResults(ctx context.Context, s *MergeSummary) error {
	s.Results = make([]*ShardResult, len(s.Shards))
	for i := range s.Results {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var err error
		if s.Results[i], err = o.readResult(i); err != nil {
			return err
		}
	}
	return nil
}

// readResult returns nil if the shard is not finished.
func (o *MergeOptions) readResult(index int) (*ShardResult, error) {
	status, err := o.Plan.Status(index)
	if err != nil || status.Finished == nil {
		return nil, err
	}
	counts := shardCounts{}
	outcomes, err := o.Plan.OpenOutcomes(status.Finished, &counts)
	if err != nil {
		return nil, err
	}
	outcomes.Close()
	r, ok := counts.result()
	if !ok {
		return nil, fmt.Errorf("the outcomes of shard %d have a number out of range", index)
	}
	return r, nil
}

// result returns the part of the counts that a ShardResult has. ok is false if one of them is
// impossible, such as a time that RFC 3339 cannot express.
func (c *shardCounts) result() (r *ShardResult, ok bool) {
	r = &ShardResult{
		Files: c.Files, Bytes: c.Bytes, ResumedFiles: c.ResumedFiles, ResumedBytes: c.ResumedBytes,
		Begun: c.Begun, Ended: c.Begun.Add(c.Elapsed),
	}
	ok = min(r.Files, r.Bytes, r.ResumedFiles, r.ResumedBytes) >= 0 && c.Elapsed >= 0 && r.Begun.Year() >= 1 && r.Ended.Year() <= 9999
	return r, ok
}
