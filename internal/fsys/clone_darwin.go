package fsys

import (
	"time"

	"golang.org/x/sys/unix"
)

// CreateClone is Create of a file that shares all blocks of src until one of the two is
// written. Content and size are src's at this instant; everything else is that of a new
// file. It uses no space and almost no time, on APFS, between files of one volume
// (fclonefileat of clonefile(2)). The blocks are neither read nor checked. The file always
// has a temporary name.
//
// The call creates the file with the source's permissions, times and extended attributes.
// CreateClone removes these afterwards. It refuses a source with a permission that the umask
// masks, or with setuid, setgid or the sticky bit. So the clone never has wider
// permissions than a new file. It also refuses a source with flags: an immutable clone could
// not be removed, and the content of a compressed file is in attributes.
//
// After an error there is no file. RefusalOf reports for how many files the caller should
// use Create and write instead.
//
// The code was compiled and vetted, not run.
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
	_ = retry(func() error { return unix.Unlinkat(d.fd, name, 0) }) // the first error matters more, as in Abort
	// The clone was not made plain. The caller can still write the file.
	return nil, refused(err, RefusedFile)
}

// cloneNamed makes the clone under a new temporary name.
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

// openClone opens the new clone, unless another file has its name now. If its permissions do
// not let its owner open it, openClone changes them first, by name.
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
	p, _, err := d.ourTemp(o, name, uint32(unix.Geteuid())) //nolint:gosec // a user's number
	return p, err
}

// plain removes the permissions, times and listed extended attributes that a clone has from
// its source. Attributes that the system hides stay (for example com.apple.provenance).
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
