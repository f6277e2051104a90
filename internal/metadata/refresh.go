package metadata

import (
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Refresh brings the metadata of an existing entry, name in dir, up to date. dst describes it. In a dry
// run it only reports whether it would change anything. Otherwise it calls sync for a file that it
// has changed.
func (s *Store) Refresh(dir *fsys.Dir, name string, v *Values, dst fsys.Info, dryRun bool, sync func(*fsys.File) error) (changed bool, err error) {
	if s.IsCurrent(dir, name, v, dst) {
		return false, nil
	}
	var o *fsys.Object
	var f *fsys.File // on some systems, an open file allows operations that a bare handle does not
	var now fsys.Info
	if v.Info.Kind == fsys.Regular {
		f, now, err = dir.Open(name)
	}
	if f != nil {
		o = &f.Object
	} else if err == nil || fsys.NotPermitted(err) {
		if o, err = dir.OpenObject(name); err == nil {
			now, err = o.Stat()
		}
	}
	if o != nil {
		defer o.Close()
	}
	if err != nil {
		return false, err
	}
	if now.Kind != v.Info.Kind || now.ID != dst.ID { // another process has replaced it, perhaps by a link to a file outside the destination
		return false, failure.ErrExchanged
	}
	if now.Kind == fsys.Symlink {
		if !s.Differs(v.Info, now) {
			return false, nil // so LinksFollowed, which creates a link, is not needed
		}
		if dryRun {
			return true, nil
		}
		if follows, err := s.LinksFollowed(dir, now); follows || err != nil {
			return false, err
		}
	}
	if dryRun {
		return s.Outdated(o, v, now)
	}
	if changed, err = s.Apply(o, v, now, false, true); err != nil {
		return changed, err
	}
	if changed && f != nil {
		return changed, sync(f)
	}
	return changed, nil
}
