package shard

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// This file reads and writes the shards of a verification and the results of its tasks. Both are
// lines of JSON:
//
//	shards/00000               a Check for each file that manifests list, in the order of the manifests
//	work/00000/000001/results  a CheckResult for each Check, in the same order

// Checks are the options of a planned verification, and its manifests.
type Checks struct {
	Manifest      Text       `json:"manifest"` // of --manifest; "" to look for manifests in each directory
	ConvertPaths  bool       `json:"convert_paths"`
	IgnoreMissing bool       `json:"ignore_missing"`
	Strict        bool       `json:"strict"`
	Unlisted      bool       `json:"unlisted"`
	Manifests     []Manifest `json:"manifests"` // by directory, then in the order of the check
}

// Manifest is a manifest that a verification uses. The merge reads it again, so it must not
// change.
type Manifest struct {
	Target int    `json:"target"` // index in Plan.Targets of its directory
	Path   Text   `json:"path"`   // for messages
	BagIt  bool   `json:"bagit"`  // its lines have the spellings of BagIt
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"`
}

// Check is a file with all manifest lines for it. A task reads the file once and compares it with
// all of them.
type Check struct {
	Path    Text        `json:"path"`    // as spelled in the manifests; hostile ones may lead out of the tree
	Literal Text        `json:"literal"` // a second spelling; "" for none
	Lines   []CheckLine `json:"lines"`
}

// CheckLine is one line of a manifest.
type CheckLine struct {
	Number   int64         `json:"number"`   // in the order of all lines
	Manifest int           `json:"manifest"` // index in Checks.Manifests
	Size     int64         `json:"size"`     // -1 if it is not listed
	Digests  []CheckDigest `json:"digests"`
}

// CheckDigest is a listed digest.
type CheckDigest struct {
	Algorithm hash.Algorithm `json:"algorithm"`
	Digest    string         `json:"digest"`    // in hexadecimal
	AnyOrder  bool           `json:"any_order"` // as in hash.Expected
}

// CheckResult is what a task has found about a Check.
type CheckResult struct {
	Number   int64        `json:"number"`   // of the first line
	Spelling Text         `json:"spelling"` // of the path in the tree; "" if there is none
	Read     bool         `json:"read"`     // the file was read to its end
	Bytes    int64        `json:"bytes"`    // that were read
	Size     int64        `json:"size"`     // of the file, if it was read
	Mtime    fsys.Time    `json:"mtime"`
	Cached   bool         `json:"cached"` // perhaps read from memory
	Lines    []LineResult `json:"lines"`
}

// LineResult is what a task has found about one line.
type LineResult struct {
	Verdict   string         `json:"verdict"`
	Algorithm hash.Algorithm `json:"algorithm"`
	Cause     Text           `json:"cause"`
}

const resultsName = "results"

// maxResultCause limits the recorded text of an error, in bytes. Each manifest line of a file has a
// copy of that text.
const maxResultCause = 1 << 10

// taskTime is the first line of the results.
type taskTime struct {
	Elapsed time.Duration `json:"elapsed"` // nanoseconds
}

// AddCheck adds a file to a planned verification. size is that of the file, 0 if it does not
// exist. The shards have the files in the order of the calls.
func (p *Planner) AddCheck(c *Check, size int64) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(text) >= maxLine {
		return fmt.Errorf("%.100q cannot be planned: its lines need more than %d bytes", c.Path, maxLine)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.key = binary.BigEndian.AppendUint64(p.mu.key[:0], uint64(p.mu.totals.Entries))
	p.mu.value = binary.BigEndian.AppendUint64(p.mu.value[:0], uint64(size))
	p.mu.value = append(append(p.mu.value, text...), '\n')
	p.mu.totals.Entries++
	p.mu.totals.Bytes = addCost(p.mu.totals.Bytes, size)
	p.mu.cost = addCost(p.mu.cost, costOf(fsys.Regular, size))
	p.keepError(p.mu.names.Add(p.mu.key, p.mu.value))
	return p.mu.err
}

// WriteChecks writes the plan of a verification. Write does the same for a copy.
func (p *Planner) WriteChecks(ctx context.Context, checks *Checks) (*Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return nil, p.mu.err
	}
	plan := p.newPlan()
	plan.Checks = checks
	var err error
	if plan.Shards, err = p.writeChecks(ctx); err != nil {
		return nil, err
	}
	return plan, p.complete(ctx, plan)
}

// writeChecks writes the shards. Each shard has consecutive files and nearly the same cost. A file
// on the border of two shards is in the one that contains the middle of the file's cost.
func (p *Planner) writeChecks(ctx context.Context) ([]File, error) {
	files := make([]File, shardCount(p.mu.cost, p.mu.totals.Bytes, p.opts.Shards, p.opts.ShardSize))
	var before int64         // cost of the files so far
	defer p.mu.names.Close() //nolint:errcheck // a temporary that is not needed any more
	return files, p.writeFiles(files, func(w *shardWriter) error {
		return p.mu.names.Each(func(_, value []byte) error {
			size := int64(binary.BigEndian.Uint64(value))
			cost := costOf(fsys.Regular, size)
			middle := float64(before) + float64(cost)/2
			i := min(int(middle/float64(p.mu.cost)*float64(len(files))), len(files)-1)
			before = addCost(before, cost)
			files[i].Entries++
			files[i].Bytes = addCost(files[i].Bytes, size)
			files[i].Cost = addCost(files[i].Cost, cost)
			return errors.Join(w.add(i, value[8:]), ctx.Err())
		})
	})
}

// CheckReader reads a shard of a verification.
type CheckReader struct {
	checks *Checks
	lines  *lines
	count  int64
}

// OpenChecks opens the shard with this index. The caller must Close the reader.
func (s *Store) OpenChecks(index int) (*CheckReader, error) {
	l, err := s.openShardLines(index)
	if err != nil {
		return nil, err
	}
	return &CheckReader{checks: s.Plan.Checks, lines: l}, nil
}

// Close closes the file.
func (r *CheckReader) Close() { r.lines.file.Close() }

// Next returns the next check, or io.EOF.
func (r *CheckReader) Next() (*Check, error) {
	text, err := r.lines.entry(r.count)
	if err != nil {
		return nil, err
	}
	c := &Check{}
	if err := r.lines.parseJSON(text, c); err != nil {
		return nil, err
	}
	if c.Path == "" || len(c.Lines) == 0 {
		return nil, r.lines.failed(errFields)
	}
	for _, l := range c.Lines {
		if l.Number < 0 || l.Manifest < 0 || l.Manifest >= len(r.checks.Manifests) || l.Size < -1 ||
			r.checks.Manifests[l.Manifest].Target != r.checks.Manifests[c.Lines[0].Manifest].Target {
			return nil, r.lines.failed(errNumber)
		}
		for _, d := range l.Digests {
			if !d.Algorithm.Known() || !isHex(d.Digest, d.Algorithm.Size()) {
				return nil, r.lines.failed(errDigest)
			}
		}
	}
	r.count++
	return c, nil
}

// NewCheckDigest returns a listed digest as a shard has it.
func NewCheckDigest(x hash.Expected) CheckDigest {
	return CheckDigest{x.Algorithm, hex.EncodeToString(x.Digest), x.AnyOrder}
}

// Expected returns the digest.
func (d CheckDigest) Expected() hash.Expected {
	digest, _ := hex.DecodeString(d.Digest) // CheckReader has checked it
	return hash.Expected{Algorithm: d.Algorithm, Digest: digest, AnyOrder: d.AnyOrder}
}

// ResultWriter writes the results of an attempt. Only one goroutine may use it.
type ResultWriter struct {
	attempt *Attempt
	sorter  *extsort.Sorter
}

// NewResults begins the results of the attempt. The caller must call Close.
func (a *Attempt) NewResults() *ResultWriter {
	return &ResultWriter{a, newSorter(a.Dir, sortMemory/4)}
}

// Put adds the result of a check. place is the index of the check in the shard. The caller may put
// results in any order.
func (w *ResultWriter) Put(place int64, r *CheckResult) error {
	for i := range r.Lines {
		if cause := &r.Lines[i].Cause; len(*cause) > maxResultCause {
			*cause = (*cause)[:maxResultCause]
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return w.sorter.Add(binary.BigEndian.AppendUint64(nil, uint64(place)), append(text, '\n'))
}

// Finish writes the part, durably. elapsed is the duration of the task.
func (w *ResultWriter) Finish(elapsed time.Duration) (Part, error) {
	a := w.attempt
	text, err := json.Marshal(taskTime{elapsed})
	if err != nil {
		return Part{}, err
	}
	return a.writePart(resultsName, partHead(resultsName, a.store.Plan.ID, a.index, a.Number), func(f *planFile) error {
		if _, err := f.Write(append(text, '\n')); err != nil {
			return err
		}
		return w.sorter.Each(func(_, value []byte) error {
			_, err := f.Write(value)
			return err
		})
	})
}

// Close frees what the writer uses. It may be called after Finish.
func (w *ResultWriter) Close() { _ = w.sorter.Close() }

// ResultReader reads the results of a finished shard.
type ResultReader struct {
	Elapsed time.Duration // of the task
	lines   *lines
}

// OpenResults opens the results of a finished shard. The caller must Close the reader.
func (s *Store) OpenResults(f *Finished) (*ResultReader, error) {
	var head taskTime
	l, err := s.openJSON(f, resultsName, &head)
	if err != nil {
		return nil, err
	}
	return &ResultReader{max(head.Elapsed, 0), l}, nil
}

// Close closes the file.
func (r *ResultReader) Close() { r.lines.file.Close() }

// Next returns the next result, or io.EOF.
func (r *ResultReader) Next() (*CheckResult, error) {
	text, err := r.lines.entry(0)
	if err != nil {
		return nil, err
	}
	result := &CheckResult{}
	if err := r.lines.parseJSON(text, result); err != nil {
		return nil, err
	}
	if result.Bytes < 0 || result.Size < 0 || len(result.Lines) == 0 {
		return nil, r.lines.failed(errNumber)
	}
	return result, nil
}

// parseJSON reads one object. It accepts only the spelling that the writer uses.
func (l *lines) parseJSON(text []byte, into any) error {
	if err := decodeStrict(text, into, func() ([]byte, error) { return json.Marshal(into) }); err != nil {
		return l.failed(err)
	}
	return nil
}

// validate checks the part of plan.json about a verification.
func (c *Checks) validate(targets int) error {
	for i, m := range c.Manifests {
		if m.Target < 0 || m.Target >= targets || m.Size < 0 || !isHex(m.SHA256, 32) ||
			i > 0 && m.Target < c.Manifests[i-1].Target {
			return errors.New("it describes a manifest that cannot be")
		}
	}
	return nil
}
