package fsys

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Replacement is a file that a user named and that is written as a whole: it gets
// its name when it is complete and on the device, and replaces what has it.
type Replacement struct {
	Dir  *Dir
	ID   ID     // of Dir
	Name string // in Dir
	Old  *Info  // of the file that is there already; nil if none is
}

// ErrNotRegular says that what is to be replaced is something else.
var ErrNotRegular = errors.New("it is not a regular file")

// OpenReplacement finds the place of the file. Symbolic links in path are followed:
// the path is the user's own. replaceable is asked about a file that is there.
func (sys *FS) OpenReplacement(path string, replaceable func(*File, Info) error) (*Replacement, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	dir, err := sys.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	r := &Replacement{Dir: dir, Name: filepath.Base(path)}
	if err := r.look(replaceable); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Replacement) look(replaceable func(*File, Info) error) error {
	info, err := r.Dir.Stat()
	if err != nil {
		return err
	}
	r.ID = info.ID
	f, info, err := r.Dir.Open(r.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if r.Old = &info; info.Kind != Regular {
		return &KindError{Kind: info.Kind}
	}
	return replaceable(f, info)
}

// Write makes the file of what content writes. It is complete or not there: after
// an error what was there stays.
func (r *Replacement) Write(content func(io.Writer) error) error {
	p, err := r.Dir.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	if err := content(&Writer{File: &p.File}); err != nil {
		return err
	}
	mode := 0o666 &^ Umask()
	if r.Old != nil {
		mode = r.Old.Mode & 0o777
	}
	err = p.Chmod(mode)
	if Unsupported(err) || NotPermitted(err) {
		err = nil // the file system has no modes
	}
	if err == nil {
		err = p.Sync()
	}
	if err == nil {
		if r.Old != nil {
			err = p.CommitReplacing(r.Name)
		} else {
			err = p.Commit(r.Name)
		}
	}
	if err == nil {
		err = r.Dir.Sync()
	}
	return err
}

// Close gives the directory back.
func (r *Replacement) Close() { r.Dir.Close() }
