package engine

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// This file finds the directories of a merge, which have to be those that the tasks have filled.

// plannedDir is the note of a directory that a merge completes.
type plannedDir struct {
	*shard.Directory
	made []shard.Made
}

// feed visits the directories below root. The files of the source that have names of manifests come
// first: the catalogs decide about them.
func (m *merging) feed(r *run, root *walk.Dir) {
	next, stop := iter.Pull2(extsort.Seq(func(yield func(walk.Step) error) error {
		late := map[string][]string{}
		for _, t := range r.targets {
			lines := record.Of[catalog.Planned](&t.records)
			if lines == nil {
				continue
			}
			for _, file := range lines.Special() {
				dir, name := shard.Split(file)
				if !slices.Contains(late[dir], name) {
					late[dir] = append(late[dir], name)
				}
			}
		}
		return m.store.EachDir(m.records, func(d *shard.Directory, made []shard.Made) error {
			if d.Path == "" {
				m.compareTimes(d, root.Info)
			} else if err := yield(walk.Step{Dir: d.Path, Note: plannedDir{d, made}}); err != nil {
				return err
			}
			for _, name := range late[d.Path] {
				if err := yield(walk.Step{Dir: d.Path, Name: name, Kind: fsys.Regular}); err != nil {
					return err
				}
			}
			return r.ctx.Err()
		})
	}))
	defer stop()
	err := walk.Feed(r.ctx, root, func() (walk.Step, error) {
		step, err, more := next()
		if !more {
			err = io.EOF
		}
		return step, err
	}, r.send)
	if err != nil {
		m.failPlan(r, err)
	}
	if m.changed > 0 {
		err := fmt.Errorf("the source has %s that changed after the plan was made; what is new in them was not copied: plan again", countOf(m.changed, "directory", "directories"))
		r.report(event.Event{Kind: event.Warning, Err: err})
	}
}

func countOf(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// compareTimes counts a directory of the source that was changed since the plan was made.
func (m *merging) compareTimes(planned *shard.Directory, now fsys.Info) {
	if planned.Mtime != (fsys.Time{}) && (planned.Mtime != now.Mtime || planned.Ctime != now.Ctime) {
		m.changed++
	}
}

// enter passes the directory to a worker, which completes it.
func (m *merging) enter(r *run, d *walk.Dir) bool {
	if p, ok := d.Note.(plannedDir); ok {
		m.compareTimes(p.Directory, d.Info)
	}
	if d.Parent != nil {
		r.send(job{Dir: d, Kind: fsys.Directory})
	}
	return true
}

// mayMake returns an error: a merge makes no directories. It names the shards whose tasks have
// found the directory. If there are none, they have reported why.
func (m *merging) mayMake(dd *destDir) error {
	if shards := shardsOf(dd, func(*shard.Made) bool { return true }); shards != "" {
		return fmt.Errorf("this directory is missing at the destination, with everything that was copied into it (%s); %s", shards, lostAdvice)
	}
	return dest.ErrReported
}

// recognize checks that a directory is the one that the tasks have filled, and reports whether a task
// has made it.
func (m *merging) recognize(dd *destDir, info fsys.Info) (made bool, err error) {
	p, _ := dd.src.Note.(plannedDir)
	for _, at := range p.made {
		ours := at.Target == dd.target.Index
		made = made || ours && at.New
		dd.replaced = dd.replaced || ours && at.Replaced
	}
	if shards := shardsOf(dd, func(at *shard.Made) bool { return at.Ino != 0 && at.Ino != info.ID.Ino }); shards != "" {
		err = fmt.Errorf("this is not the directory that was filled (%s); %s", shards, lostAdvice)
	}
	return made, err
}

const lostAdvice = "end this plan with sealift merge --abandon, and copy or plan again"

// shardsOf names the shards whose records of a directory satisfy is: "shards 3,7-9". It is empty if
// there are none.
func shardsOf(dd *destDir, is func(*shard.Made) bool) string {
	p, _ := dd.src.Note.(plannedDir)
	var shards []int
	for i := range p.made {
		if at := &p.made[i]; at.Target == dd.target.Index && is(at) {
			shards = append(shards, at.Shard)
		}
	}
	slices.Sort(shards)
	shards = slices.Compact(shards)
	switch len(shards) {
	case 0:
		return ""
	case 1:
		return "shard " + shard.FormatIndexes(shards)
	}
	return "shards " + shard.FormatIndexes(shards)
}
