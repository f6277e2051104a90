package metadata

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// modeUnknown marks a mode that is not known and has to be set. No file has this mode.
const modeUnknown = ^uint32(0)

// Apply sets the values v on o, an object of the destination, as far as it differs and the
// options ask for it. dst describes o now; for a new object, only its owner, group and mode
// must be valid, because the times are always set. oldXattrs says that o may have extended
// attributes already, which are compared. changed reports whether o was changed. apply warns
// once of each kind of metadata that the destination cannot store; that is no error. It sets the times
// after the attributes, which change the mtime on some file systems, for example on NTFS shares. It
// sets the mode last, because the mode shows whether a directory is finished: see
// fsys.Info.IsUnfinished.
func (s *Store) Apply(o *fsys.Object, v *Values, dst fsys.Info, isNew, oldXattrs bool) (changed bool, err error) {
	before := dst.Mode
	changed, err = s.applyOwner(o, v, &dst, isNew)
	if err != nil {
		return changed, err
	}
	var set, widened bool // attributes were set; the mode was widened for that
	if v.Info.Kind != fsys.Symlink {
		set, widened, err = s.applyXattrs(o, v, dst.Mode, isNew, oldXattrs)
		if err != nil {
			return changed, err
		}
		changed = changed || set
	}
	if s.Rules.Preserve&PreserveTimes != 0 && (isNew || set || !s.SameTime(dst.Mtime, v.Info.Mtime)) {
		err := o.SetTimes(v.Info.Atime, v.Info.Mtime, v.Info.Btime)
		switch {
		case err == nil:
			changed = true
			if err := s.checkFarTime(o, v.Info.Mtime); err != nil {
				return changed, err
			}
		case Refused(err):
			s.warn(kindTimes, fmt.Errorf("times cannot be kept there: %w", err))
		default:
			return changed, err
		}
	}
	if v.Info.Kind == fsys.Symlink {
		return changed, nil
	}
	mode := s.Rules.ModeFor(v.Info, dst, isNew, SameOwner(v.Info, dst))
	if mode == modeUnknown { // the mode stays, but chown may have cleared bits
		mode = before
	}
	if mode != dst.Mode || set || widened || isNew && s.ForgetsModes {
		accepted, err := s.applyMode(o, mode, dst, isNew)
		if err != nil {
			return changed, err
		}
		changed = changed || accepted && mode != dst.Mode
	}
	return changed, nil
}

// applyOwner sets the owner and group of v on o, if the options ask for it and the process is
// privileged. It updates dst.
func (s *Store) applyOwner(o *fsys.Object, v *Values, dst *fsys.Info, isNew bool) (changed bool, err error) {
	if SameOwner(v.Info, *dst) || !s.Rules.setsOwner() || s.cannot(kindOwner) {
		return false, nil
	}
	if !isNew && !s.ForgetsOwners && v.Info.Kind != fsys.Symlink {
		dst.Mode = s.narrowMode(o, v.Info, *dst)
	}
	if isNew || !s.ForgetsOwners {
		err = o.Chown(v.Info.UID, v.Info.GID)
	}
	switch {
	case err != nil && !Refused(err):
		return false, err
	case s.ForgetsOwners:
		s.warn(kindOwner, errors.New("owners cannot be kept there: the file system forgets them"))
		return false, nil
	case err != nil:
		s.warn(kindOwner, fmt.Errorf("owners cannot be kept there: %w", err))
		return false, nil
	}
	dst.UID, dst.GID = v.Info.UID, v.Info.GID
	if dst.Mode&(fsys.ModeSetuid|fsys.ModeSetgid) != 0 {
		dst.Mode = modeUnknown // chown cleared setuid or setgid; which, depends on the kind of file
	}
	return true, nil
}

// applyMode sets the mode of o.
func (s *Store) applyMode(o *fsys.Object, mode uint32, dst fsys.Info, isNew bool) (changed bool, err error) {
	if s.cannot(kindMode) {
		return false, nil
	}
	if isNew || !s.ForgetsModes {
		err = o.Chmod(mode)
	}
	switch {
	case err != nil && !Refused(err):
		return false, err
	case s.ForgetsModes && mode != dst.Mode:
		s.warn(kindMode, errors.New("permissions cannot be kept there: the file system forgets them"))
		return false, nil
	case err != nil:
		s.warn(kindMode, fmt.Errorf("permissions cannot be kept there: %w", err))
		return false, nil
	}
	return true, nil
}

// The range of time stamps that every file system can store, in seconds since 1970. FAT and
// exFAT have none before 1980, and ext4 with inodes of 128 bytes has none from 2038 on.
const (
	firstCommon = 315532800
	pastCommon  = 1 << 31
)

// checkFarTime warns if the file system has stored another mtime than want, which was just
// set. It reads the time only if want is out of the range that every file system can store.
func (s *Store) checkFarTime(o *fsys.Object, want fsys.Time) error {
	if want.Sec >= firstCommon && want.Sec < pastCommon {
		return nil
	}
	dst, err := o.Stat()
	if err == nil && !s.SameTime(dst.Mtime, want) {
		shown := func(t fsys.Time) string { return time.Unix(t.Sec, 0).UTC().Format(time.DateTime) }
		s.warn(kindFarTimes, fmt.Errorf("times before 1980 or after 2037 cannot all be kept there: %s becomes %s (UTC)", shown(want), shown(dst.Mtime)))
	}
	return err
}

// narrowMode prepares a change of the owner or group of o. It removes the permissions that the new
// owner and group must not get, and returns the remaining mode.
func (s *Store) narrowMode(o *fsys.Object, src, dst fsys.Info) uint32 {
	mode := dst.Mode & s.Rules.ModeFor(src, dst, false, true)
	if mode == dst.Mode || s.cannot(kindMode) || o.Chmod(mode) != nil { // applyMode tries again and reports the error
		return dst.Mode
	}
	return mode
}

// Refused reports whether err means that a destination does not store the metadata, or does
// not let this user set it.
func Refused(err error) bool {
	return fsys.Unsupported(err) || fsys.NotPermitted(err) || fsys.InvalidArgument(err) || errors.Is(err, fsys.ErrUnread)
}
