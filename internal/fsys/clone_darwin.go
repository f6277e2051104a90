package fsys

import (
	"time"

	"golang.org/x/sys/unix"
)

// CreateClone is Create of a file that shares all blocks of src, from which it
// parts where either is written: content and size are src's at this instant, all
// else that of a new file. It costs no room and next to no time, on APFS, between
// files of one volume (fclonefileat of clonefile(2)). The blocks were neither read
// nor checked. The file always has a temporary name.
//
// The call makes the file with the source's permissions, times and extended
// attributes, which are taken away after it. A source with a permission that the
// umask takes from new files, or with setuid, setgid or the sticky bit, is refused
// for itself, so that the clone is at no instant open to anybody whom a new file
// is not open to. So is one with flags: an immutable clone could not be removed,
// and the content of a compressed file is in attributes.
//
// After an error there is no file; RefusalOf tells which ones leave Create and
// writing open, and for how many files.
//
// This was compiled and vetted, not run.
func (d *Dir) CreateClone(src *File, _ bool) (*Pending, error) {
	if err := d.fault(OpClone, ""); err != nil {
		return nil, refused(err, reachOf(err))
	}
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(src.fd, &st) }); err != nil {
		return nil, err
	}
	if mode := infoOf(&st).Mode; mode&^0o777 != 0 || mode&Umask() != 0 || st.Flags != 0 {
		return nil, refused(errNotSupported, RefusedFile)
	}
	name, err := d.cloneNamed(src)
	if err != nil {
		return nil, refused(err, reachOf(err))
	}
	p, err := d.openClone(name)
	if err == nil {
		if err = p.plain(); err == nil {
			err = d.made(nil, OpCreate, name, "")
		}
		if err == nil {
			err = p.filled(0, st.Size)
		}
		if err == nil {
			return p, nil
		}
		p.Close()
	}
	_ = retry(func() error { return unix.Unlinkat(d.fd, name, 0) }) // as in Abort
	// A clone that could not be made plain is no loss: writing the file is open.
	return nil, refused(err, RefusedFile)
}

// cloneNamed makes the clone under a temporary name that nobody has.
func (d *Dir) cloneNamed(src *File) (name string, err error) {
	for {
		name = d.TempName()
		err = retry(func() error {
			return unix.Fclonefileat(src.fd, d.fd, name, unix.CLONE_NOFOLLOW|unix.CLONE_NOOWNERCOPY)
		})
		if err != unix.EEXIST {
			return name, err
		}
	}
}

// openClone opens what was cloned, if it is that still. Permissions that keep its
// owner out are changed first, by name.
func (d *Dir) openClone(name string) (*Pending, error) {
	const flags = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	o, err := d.openAt(name, flags, 0)
	if err == unix.EACCES {
		err = retry(func() error { return unix.Fchmodat(d.fd, name, 0o600, unix.AT_SYMLINK_NOFOLLOW) })
		if err == nil {
			o, err = d.openAt(name, flags, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	p := d.pending(o, name)
	info, err := p.Stat()
	if err == nil && !isOurTemp(info, uint32(unix.Geteuid())) { //nolint:gosec // a user's number
		err = errNotOurTemp
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// plain takes from a clone what it has of its source besides content: permissions,
// times, and extended attributes, as far as they are listed. What the system keeps
// to itself stays (com.apple.provenance and the like).
func (p *Pending) plain() error {
	if err := retry(func() error { return unix.Fchmod(p.fd, 0o600) }); err != nil {
		return err
	}
	list, err := p.xattrs(func(string) bool { return true })
	if err != nil && !Unsupported(err) {
		return err
	}
	for _, x := range list {
		err := retry(func() error { return p.removexattr(x.Name) })
		if err != nil && err != errNoXattr {
			return err
		}
	}
	now := time.Now()
	t := Time{Sec: now.Unix(), Nsec: int64(now.Nanosecond())}
	return retry(func() error { return p.setTimes(t, t, t) })
}
