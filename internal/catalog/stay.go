package catalog

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// This file keeps lines without copying them. Most runs of a copy that is repeated change few
// files. The lines of the others are only marked in the index of the previous manifest. If
// all lines are marked and there are no new ones, the manifest stays and is not composed.

// Line is a line of the previous manifest; 0 for none.
type Line = manifest.LineNumber

// marksLines reports whether the catalog marks lines that stay: it has one manifest of an
// earlier run, and nothing but that manifest needs the lines.
func (c *Catalog) marksLines() bool {
	return len(c.lists) == 1 && len(c.opts.Hashes) == 1 && c.lists[0].prev != nil && !c.single() && !c.opts.ReadsBack &&
		c.opts.Outside == "" && c.opts.Bag == nil && c.opts.MediaList == nil && c.history == nil && c.recorder == nil
}

// keptInOne is Kept for a catalog that marks lines.
func (c *Catalog) keptInOne(file string) (digests hash.Digests, line Line, complete bool) {
	prev := c.lists[0].prev
	if !c.isKnown(c.lists[0]) || prev.path == file { // no manifest can list itself
		return nil, 0, false
	}
	digest, line, err := prev.index.LookupLine(file)
	if line == 0 || err != nil { // Write reports a line that cannot be read
		return make(hash.Digests, 1), 0, false
	}
	return hash.Digests{digest}, line, true
}

// stay marks the line of an outcome, and reports whether that is enough. It is not after a
// Drop, which may be about the same path: the last record counts.
func (c *Catalog) stay(o Outcome) bool {
	if o.Line == 0 || c.drops {
		return false
	}
	c.lists[0].prev.index.Stay(o.Line)
	return true
}

// stillIndexed returns an error if marked lines may be other ones now than when they were marked,
// because another process has written into the previous manifest.
func (c *Catalog) stillIndexed(l *list) error {
	if !c.marksLines() {
		return nil
	}
	now, err := l.prev.file.Stat()
	if err == nil && !l.prev.isSame(now) {
		err = errMeddled
	}
	return err
}

// unchanged is equals for a manifest of which all lines stay, and which has no others. It
// returns "" if it does not know that. The file that is open as present has the path file.
func (c *Catalog) unchanged(l *list, file string, present *fsys.File, info fsys.Info) (n manifest.Counts, digest string, err error) {
	if !c.marksLines() || c.changed || l.prev.aside || l.prev.path != file || !l.prev.index.AllStay() {
		return n, "", nil
	}
	if !l.prev.isSame(info) || info.Ctime != l.prev.info.Ctime {
		return n, "", nil
	}
	sum, err := digestOfOpen(present, info.Size, hash.SHA256)
	if err != nil {
		return n, "", err
	}
	n.Lines = l.prev.index.Len()
	return n, hash.SHA256.Text(sum), nil
}
