package incomplete

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Job is the copy of a tree into one destination.
//
// A job owns the markers in the destination that name its source and the same filters. A
// copy without filters owns the markers of copies with filters, too. A copy with filters
// copies only some of the files, so it keeps the marker of a copy without filters.
//
// It never replaces or removes a file that it does not own.
type Job struct {
	Root    *fsys.Dir // root of the destination
	Source  string    // an absolute path without symbolic links
	Filters string    // value of Head.Filters
	// Sync makes each change durable. It is off after a sync has failed in the destination,
	// because the kernel reports an error once, and the next sync would succeed.
	Sync bool
}

// Mark writes a marker with the missing paths, and removes the job's earlier markers. There
// may be several, because users can rename them.
func (j *Job) Mark(m *Missing) error {
	if err := j.mark(m); err != nil {
		return fmt.Errorf("cannot write %s: %w", quote.Name(Name(j.Source, 1)), err)
	}
	return nil
}

func (j *Job) mark(m *Missing) error {
	own, names, err := j.own()
	if err != nil {
		return err
	}
	head := Head{Source: quote.Name(j.Source), Filters: j.Filters, Date: time.Now().UTC().Format(time.RFC3339)}
	p, err := j.Root.Compose(0o666&^fsys.Umask(), j.Sync, func(w *fsys.Writer) error { return m.write(w, head) })
	if err != nil {
		return err
	}
	defer p.Abort()
	for number := 1; number <= MaxNumber; number++ {
		name := Name(j.Source, number)
		commit := p.Commit
		listed := listedAs(j.Root, names, name)
		if id, ok := own[listed]; ok {
			stays, err := j.leadsTo(listed, id)
			if err != nil {
				return err
			}
			if stays {
				commit = p.CommitReplacing
				delete(own, listed)
			}
		}
		err := commit(name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		return j.remove(own)
	}
	return fmt.Errorf("the names up to %s exist", quote.Name(Name(j.Source, MaxNumber)))
}

// Unmark removes the job's markers.
func (j *Job) Unmark() error {
	own, _, err := j.own()
	if err != nil || len(own) == 0 {
		return err
	}
	return j.remove(own)
}

// remove removes markers and syncs the destination's root.
func (j *Job) remove(own map[string]fsys.ID) error {
	for _, name := range slices.Sorted(maps.Keys(own)) {
		stays, err := j.leadsTo(name, own[name])
		if stays {
			err = j.Root.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s cannot be removed: %w", quote.Name(name), err)
		}
	}
	if !j.Sync {
		return nil
	}
	return j.Root.Sync()
}

// leadsTo reports whether a name still leads to the same file.
func (j *Job) leadsTo(name string, id fsys.ID) (bool, error) {
	now, err := j.Root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && now.ID == id, err
}

// own returns the names of all markers, and the identities of those with the head of this job.
func (j *Job) own() (own map[string]fsys.ID, names []string, err error) {
	if names, err = list(j.Root, IsName); err != nil {
		return nil, nil, err
	}
	own = map[string]fsys.ID{}
	for _, name := range names {
		head, info, err := Open(j.Root, name)
		switch {
		case errors.Is(err, ErrNoHead), errors.Is(err, fs.ErrNotExist), errors.As(err, new(*fsys.KindError)),
			fsys.NotPermitted(err), fsys.IsSymlinkRefusal(err):
			// not a marker of this user
		case err != nil:
			return nil, nil, fmt.Errorf("%s cannot be read: %w", quote.Name(name), err)
		case head.Source == quote.Name(j.Source) && (j.Filters == NoFilters || j.Filters == head.Filters):
			own[name] = info.ID
		}
	}
	return own, names, nil
}

// list returns the sorted names in dir for which is returns true.
func list(dir *fsys.Dir, is func(string) bool) (names []string, err error) {
	err = dir.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		if s := string(name); is(s) {
			names = append(names, s)
		}
		return true
	})
	slices.Sort(names)
	return names, err
}
