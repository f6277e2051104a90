// Package source opens, describes and reads the entries of the source of a copy.
//
// A Source has what is common to all entries. An Entry is one of them in one state: it is described once,
// and everything that is read belongs to that description. If the file changes meanwhile, the functions
// return ErrChanged, and the caller describes it again.
package source

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// ErrChanged means that the file no longer has the state of its description.
var ErrChanged = errors.New("the source changed")

// Entry is an entry of the source. A directory is none.
type Entry struct {
	walk.Item
	Path string // path relative to the source's root

	State
}

// State is one state of an entry, as it was described.
type State struct {
	Meta   metadata.Values
	Link   string         // the target of a symbolic link
	File   *fsys.File     // file that is open while a regular file is worked on
	Evict  *pipe.Eviction // drops the file from the page cache after reading; nil if the cache is left alone
	Direct bool           // true if the file is read with O_DIRECT

	prepared bool // true after Prepare
}

// Describe reads the state of the entry. If open is set and it is a regular file, Describe opens it. It
// checks the kind, because another entry may have got the name since the listing.
func (e *Entry) Describe(open bool) error {
	e.Close()
	e.State = State{}
	dir, err := e.Dir.Acquire()
	if err != nil {
		return err
	}
	defer e.Dir.Release()
	if open && e.Kind == fsys.Regular {
		e.File, e.Meta.Info, err = dir.Open(e.Name)
	} else {
		e.Meta.Info, err = dir.Lstat(e.Name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure.ErrVanished
	case err != nil && fsys.IsSymlinkRefusal(err):
		return failure.ErrExchanged
	case err != nil:
		return err
	case e.Kind == fsys.Regular && e.Meta.Info.Kind == fsys.Symlink:
		return failure.ErrExchanged
	case e.Meta.Info.Kind != e.Kind:
		e.Close()
		return fmt.Errorf("it was a %s when listed and is a %s now", e.Kind, e.Meta.Info.Kind)
	}
	if e.Kind == fsys.Symlink {
		e.Link, err = dir.Readlink(e.Name)
	}
	return err
}

// Open opens a regular file that Describe has not opened, or that was closed. The error is ErrChanged if
// the file has changed since Describe, or if another file has the name now.
func (e *Entry) Open(c *Cache) error {
	if e.Kind != fsys.Regular || e.File != nil {
		return nil
	}
	dir, err := e.Dir.Acquire()
	if err != nil {
		return err
	}
	f, info, err := dir.Open(e.Name)
	e.Dir.Release()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure.ErrVanished
	case err != nil && fsys.IsSymlinkRefusal(err):
		return ErrChanged
	case err != nil:
		return err
	}
	e.File = f
	if !SameState(e.Meta.Info, info) {
		return ErrChanged
	}
	c.prepare(e)
	return nil
}

// Close closes the file.
func (e *Entry) Close() {
	if e.File != nil {
		e.File.Close()
		e.File = nil
	}
}

// Unchanged returns ErrChanged if the entry no longer has the described state. It checks
// the name and not the open file, so it also notices another file that was renamed to this
// name.
func (e *Entry) Unchanged() error {
	dir, err := e.Dir.Acquire()
	if err != nil {
		return err
	}
	now, err := dir.Lstat(e.Name)
	e.Dir.Release()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure.ErrVanished
	case err == nil && !SameState(e.Meta.Info, now):
		return ErrChanged
	}
	return err
}

// SameState reports whether a and b describe the same file in the same state: equal identity,
// size, mtime and ctime.
func SameState(a, b fsys.Info) bool {
	return a.ID == b.ID && a.Size == b.Size && a.Mtime == b.Mtime && a.Ctime == b.Ctime
}

// Prepare reads the metadata that Describe has not read, and prepares a regular file for the way in
// which it is read. It does so once for each description.
func (e *Entry) Prepare(r *metadata.Reader, c *Cache) error {
	if e.prepared {
		return nil
	}
	e.prepared = true
	if e.Kind != fsys.Regular {
		return e.readSpecial(r)
	}
	if e.File != nil {
		c.prepare(e)
	} else {
		if may, err := e.mayHaveXattrs(r); err != nil || !may {
			return err
		}
		if err := e.Open(c); err != nil {
			return err
		}
	}
	return r.Read(&e.File.Object, e.Path, &e.Meta)
}

// mayHaveXattrs reports whether a regular file has to be opened to read its extended attributes.
func (e *Entry) mayHaveXattrs(r *metadata.Reader) (bool, error) {
	if !r.MayHave(e.Meta.Info.ID.Dev) {
		return false, nil
	}
	dir, err := e.Dir.Acquire()
	if err != nil {
		return true, err
	}
	defer e.Dir.Release()
	return dir.MayHaveXattrs(e.Name), nil
}

// readSpecial reads the extended attributes of a fifo, socket or device: ACLs and security labels.
func (e *Entry) readSpecial(r *metadata.Reader) error {
	if e.Kind == fsys.Symlink || !r.MayHave(e.Meta.Info.ID.Dev) {
		return nil
	}
	dir, err := e.Dir.Acquire()
	if err != nil {
		return err
	}
	defer e.Dir.Release()
	o, err := dir.OpenObject(e.Name)
	if err != nil {
		return err
	}
	defer o.Close()
	if now, err := o.Stat(); err != nil || now.ID != e.Meta.Info.ID {
		if err == nil {
			err = failure.ErrExchanged
		}
		return err
	}
	return r.Read(o, e.Path, &e.Meta)
}
