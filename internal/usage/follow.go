package usage

import (
	"context"
	"slices"

	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// follower measures a tree as the walk does, and follows the symbolic links in it. An entry that
// is reached several times counts where du reaches it first. So one goroutine visits the entries
// in the order of du. It opens directories by their paths, because links lead anywhere.
type follower struct {
	*tree
	ctx    context.Context
	active []fsys.ID // directories on the way to the present one, and that one
}

func (t *tree) follow(ctx context.Context, root *fsys.Dir, info fsys.Info) {
	if !t.run.once(info.ID) {
		root.Close()
		return
	}
	t.root, t.device = &node{}, info.ID.Dev
	f := &follower{tree: t, ctx: ctx}
	f.directory(t.root, "", root, info, t.run.opts.Filter.Root())
}

// directory measures the directory at a path relative to the root, and closes it.
func (f *follower) directory(n *node, path string, dir *fsys.Dir, info fsys.Info, verdict filter.Verdict) {
	n.sum.set(f.run.amount(info))
	n.byInode = dir.SeeksByInode()
	var entries []file
	err := dir.Each(func(name []byte, ino uint64, _ fsys.Kind) bool {
		entries = append(entries, file{name: string(name), place: walk.Place{At: len(entries), Ino: ino}})
		return f.ctx.Err() == nil
	})
	dir.Close()
	if err != nil {
		f.run.fail(f.join(path), err)
	}
	n.entries = len(entries)
	slices.SortFunc(entries, func(a, b file) int { return n.compare(a.place, b.place) })
	f.active = append(f.active, info.ID)
	for _, e := range entries {
		if f.ctx.Err() != nil {
			return
		}
		below := e.name
		if path != "" {
			below = path + "/" + e.name
		}
		f.entry(n, e, below, verdict)
	}
	f.active = f.active[:len(f.active)-1]
}

// entry measures an entry of n.
func (f *follower) entry(n *node, e file, path string, above filter.Verdict) {
	o := f.run.opts
	info, err := o.FS.StatPath(f.join(path))
	isDir := err == nil && info.Kind == fsys.Directory
	verdict := o.Filter.Match(path, isDir, above)
	switch {
	case verdict.LeftOut():
		f.run.leftOut.Add(1)
	case err != nil:
		f.run.fail(f.join(path), err)
	case o.OneFileSystem && info.ID.Dev != f.device:
	case isDir:
		if !slices.Contains(f.active, info.ID) && f.run.once(info.ID) {
			f.enter(n, e, path, info, verdict)
			return
		}
		o.Filter.Unsearched(path)
	case !f.run.countsOnce(info) || f.run.links.first(info.ID):
		e.kind, e.Amount = info.Kind, f.run.amount(info)
		n.sum.add(e.Amount)
		f.line(n, e)
	}
}

// enter measures a directory in n.
func (f *follower) enter(n *node, e file, path string, info fsys.Info, verdict filter.Verdict) {
	c := &node{}
	f.adopt(n, c, e.name, e.place)
	if dir, err := f.run.opts.FS.OpenRoot(f.join(path)); err == nil {
		f.directory(c, path, dir, info, verdict)
	} else {
		c.sum.set(f.run.amount(info))
		f.run.fail(f.join(path), err)
	}
	if !f.listed(c.depth) {
		f.above(n).add(c.sum.amount())
	}
}
