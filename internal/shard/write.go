package shard

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Write writes the plan. It writes plan.json last, when everything else is on the device. A plan
// without plan.json is not complete, and Write of a new Planner replaces its files. The caller
// must not add anything to the Planner afterwards.
func (p *Planner) Write(ctx context.Context) (*Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return nil, p.mu.err
	}
	plan := p.newPlan()
	groups, err := p.groupLinks(ctx)
	if err != nil {
		return nil, err
	}
	_ = p.mu.links.Close() // a temporary that is not needed any more
	if err := p.mu.names.Seal(); err != nil {
		return nil, err
	}
	a, err := p.assign(ctx, groups)
	if err != nil {
		return nil, err
	}
	if plan.Shards, err = p.writeShards(ctx, a); err != nil {
		return nil, err
	}
	return plan, p.complete(ctx, plan)
}

// newPlan returns the content of plan.json without the descriptions of the files of the plan.
func (p *Planner) newPlan() *Plan {
	plan := &Plan{
		Format: formatName, Version: formatVersion, ID: p.id, Kind: p.opts.Kind,
		Created: time.Now().UTC().Truncate(time.Second), Sealift: p.opts.Sealift,
		Options: p.opts.Copy, Source: p.opts.Source, Sample: p.mu.sample,
		Targets: p.opts.Targets, Lists: p.opts.Lists, Late: p.mu.late,
	}
	slices.SortFunc(plan.Sample, func(a, b Sample) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(plan.Late)
	return plan
}

// complete writes what follows the shards.
func (p *Planner) complete(ctx context.Context, plan *Plan) (err error) {
	if plan.Dirs, err = p.writeDirs(ctx); err != nil {
		return err
	}
	if plan.Missing, err = p.writeMissing(ctx); err != nil {
		return err
	}
	plan.Totals = p.mu.totals
	plan.Totals.LeftOut = p.LeftOut.Load()
	return p.writePlan(plan)
}

// writeShards writes all shards.
func (p *Planner) writeShards(ctx context.Context, a *assignment) ([]File, error) {
	files := make([]File, len(a.loads))
	lines := newSorter(p.plan, p.opts.memory) // of shards, by shard and sequence
	defer lines.Close()                       //nolint:errcheck // a temporary that is not needed any more
	counted := make(bits, len(a.groups)/64+1) // groups whose bytes are counted
	in := make([]uint64, len(files))          // the directory of each shard's last entry
	var key, value []byte
	add := func(shard int, dir, sequence uint64) error {
		key = binary.BigEndian.AppendUint32(key[:0], uint32(shard))
		key = binary.BigEndian.AppendUint64(key, dir)
		key = binary.BigEndian.AppendUint64(key, sequence)
		return lines.Add(key, value)
	}
	d := &distributor{assignment: a, yield: func(shard int, e *planned) error {
		files[shard].Entries++
		if e.Kind == fsys.Regular && (e.Group == 0 || !counted.has(e.Group)) {
			files[shard].Bytes = addCost(files[shard].Bytes, e.Size)
			counted.set(e.Group)
		}
		if in[shard] != e.dir { // the first entry of its directory in this shard; directories are numbered from 1
			in[shard] = e.dir
			dir, _ := splitPath(e.Path)
			value = appendEntryDir(value[:0], EntryDir{dir, e.absent.filled(len(p.opts.Targets))})
			if err := add(shard, e.dir, 0); err != nil {
				return err
			}
		}
		value = appendEntry(value[:0], &e.Entry)
		return add(shard, e.dir, e.sequence)
	}}
	if err := p.entries(ctx, d.add, nil); err != nil {
		return nil, err
	}
	if err := d.endDirectory(); err != nil {
		return nil, err
	}
	_ = p.mu.names.Close() // a temporary that is not needed any more
	for i := range files {
		files[i].Cost = a.loads[i]
	}
	return files, p.writeFiles(files, func(w *shardWriter) error {
		return lines.Each(func(key, value []byte) error {
			return errors.Join(w.add(int(binary.BigEndian.Uint32(key)), value), ctx.Err())
		})
	})
}

// writeFiles writes the files of all shards. fill adds their content.
func (p *Planner) writeFiles(files []File, fill func(*shardWriter) error) error {
	dir, err := p.plan.OpenDir(shardsName)
	if err != nil {
		return err
	}
	defer dir.Close()
	w := &shardWriter{dir: dir, id: p.id, files: files}
	defer w.abort()
	if err := fill(w); err != nil {
		return err
	}
	if err := w.upTo(len(files)); err != nil {
		return err
	}
	return errors.Join(removeShards(dir, len(files)), p.makeWork(len(files)), dir.Sync())
}

// makeWork makes the directories of the attempts.
func (p *Planner) makeWork(shards int) error {
	work, err := p.plan.OpenDir(workName)
	if err != nil {
		return err
	}
	defer work.Close()
	for i := range shards {
		if err := work.Mkdir(shardName(i)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return work.Sync()
}

// removeShards removes shards beyond the last one, which a planner that was killed has left.
func removeShards(dir *fsys.Dir, shards int) error {
	return removeNames(dir, func(name string) bool {
		n, err := strconv.Atoi(name)
		return err == nil && n >= shards && shardName(n) == name
	})
}

// shardWriter writes shards one after the other.
type shardWriter struct {
	dir   *fsys.Dir
	id    string
	files []File
	next  int // the shard after the current one
	*planFile
}

// upTo completes the shards before the one with this index, and begins that one.
func (w *shardWriter) upTo(shard int) error {
	for w.next <= shard {
		if w.next > 0 {
			if err := w.commit(shardName(w.next-1), &w.files[w.next-1]); err != nil {
				return err
			}
		}
		if w.next == len(w.files) {
			return nil
		}
		var err error
		if w.planFile, err = createFile(w.dir, shardHead(w.id, w.next)); err != nil {
			return err
		}
		w.next++
	}
	return nil
}

// add adds text to a shard. The calls come in the order of the shards.
func (w *shardWriter) add(shard int, text []byte) error {
	if err := w.upTo(shard); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

// abort removes the file of the current shard unless it is complete.
func (w *shardWriter) abort() {
	if w.planFile != nil {
		w.file.Abort()
	}
}

// shardHead returns the first line of a shard, tableHead that of the other files with lines, and
// endLine is the last one.
func shardHead(id string, shard int) string { return fmt.Sprintf("sealift-shard %s %d\n", id, shard) }

func tableHead(name, id string) string { return fmt.Sprintf("sealift-%s %s\n", name, id) }

const endLine = "end"

// planFile is a file of a plan that is being written.
type planFile struct {
	file   *fsys.Pending
	out    *bufio.Writer
	digest hash.Hash
	size   int64 // that was written to out
}

func createFile(dir *fsys.Dir, head string) (*planFile, error) {
	file, err := dir.Create(false)
	if err != nil {
		return nil, err
	}
	f := &planFile{file: file, digest: sha256.New()}
	f.out = bufio.NewWriterSize(&fsys.Writer{File: &file.File}, fileBuffer)
	_, _ = f.Write([]byte(head)) // out returns an error again in commit
	return f, nil
}

// Write implements io.Writer.
func (f *planFile) Write(text []byte) (int, error) {
	f.size += int64(len(text))
	_, _ = f.digest.Write(text) // it never returns an error
	return f.out.Write(text)
}

// commit completes the file, syncs it and gives it its name. After an error, the caller must abort
// the file.
func (f *planFile) commit(name string, about *File) error {
	_, err := f.Write([]byte(endLine + "\n"))
	if err := errors.Join(err, f.out.Flush(), f.file.SyncToDrive()); err != nil {
		return err
	}
	about.Size, about.SHA256 = f.size, hex.EncodeToString(f.digest.Sum(nil))
	return f.file.CommitReplacing(name)
}

// writeLines writes a file of the plan whose lines body writes. The content is then durable; the
// caller syncs the directory.
func writeLines(dir *fsys.Dir, name, head string, about *File, body func(*planFile) error) error {
	f, err := createFile(dir, head)
	if err != nil {
		return err
	}
	defer f.file.Abort()
	if err := body(f); err != nil {
		return err
	}
	return f.commit(name, about)
}

// writeDirs writes the table of directories.
func (p *Planner) writeDirs(ctx context.Context) (File, error) {
	return p.writeSorted(ctx, p.mu.dirs, dirsName, func(dst, _, value []byte) []byte { return append(dst, value...) })
}

// writeMissing writes the list of missing paths.
func (p *Planner) writeMissing(ctx context.Context) (File, error) {
	return p.writeSorted(ctx, p.mu.missing, missingName, func(dst, key, _ []byte) []byte {
		return appendMissing(dst, Missing{int(binary.BigEndian.Uint16(key)), string(key[2:])})
	})
}

// writeSorted writes a file with a line for each record.
func (p *Planner) writeSorted(ctx context.Context, records *extsort.Sorter, name string, appendLine func(dst, key, value []byte) []byte) (about File, err error) {
	defer records.Close() //nolint:errcheck // a temporary that is not needed any more
	var line []byte
	err = writeLines(p.plan, name, tableHead(name, p.id), &about, func(f *planFile) error {
		return records.Each(func(key, value []byte) error {
			about.Entries++
			line = appendLine(line[:0], key, value)
			_, err := f.Write(line)
			return errors.Join(err, ctx.Err())
		})
	})
	return about, err
}

// writePlan writes plan.json when everything else is on the device. Of two planners that
// finish at the same time, one gets ErrPlanned.
func (p *Planner) writePlan(plan *Plan) error {
	text, err := plan.encode()
	if err != nil {
		return err
	}
	if err := p.plan.Sync(); err != nil {
		return err
	}
	if p.opts.BeforeCommit != nil {
		if err := p.opts.BeforeCommit(); err != nil {
			return err
		}
	}
	file, err := newFile(p.plan, text)
	if err != nil {
		return err
	}
	defer file.Abort()
	if err := file.SyncToDrive(); err != nil {
		return err
	}
	err = file.Commit(planName)
	if errors.Is(err, fs.ErrExist) {
		return ErrPlanned
	}
	if err != nil {
		return err
	}
	if err := p.plan.SyncToDrive(); err != nil {
		return err
	}
	_ = p.plan.Remove(planningName) // it does no harm beside plan.json
	return nil
}
