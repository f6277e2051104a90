package fsys

import "syscall"

// Pending is a file that is being written. It has no name, or a temporary one, with mode 0600,
// until Commit or CommitReplacing. Abort removes it; Keep leaves the temporary. CreateUnnamed
// can give it another mode.
type Pending struct {
	File
	dir    *Dir   // the directory of the file; nil after Commit, Keep or Abort
	temp   string // the temporary name; "" while the file has no name
	mode   uint32 // the mode with which the file was created
	closed bool
}

// privateMode is the mode of a file that is not complete: only its owner may open it.
const privateMode = 0o600

// Create begins a new file in d, which must stay open until the file is committed, kept or
// aborted. named gives it a temporary name from the start, also on systems that support files
// without a name. A later run can find the file only by its name.
func (d *Dir) Create(named bool) (*Pending, error) {
	if !named {
		return d.CreateUnnamed(privateMode)
	}
	if err := d.fault(OpCreate, ""); err != nil {
		return nil, err
	}
	return d.createNamed()
}

// Compose is Create(false) of a file that write writes. It gets the mode, or stays private if that is 0,
// and is synced if durable is set. The caller commits or aborts it.
func (d *Dir) Compose(mode uint32, durable bool, write func(*Writer) error) (*Pending, error) {
	p, err := d.Create(false)
	if err != nil {
		return nil, err
	}
	err = write(&Writer{File: &p.File})
	if err == nil && mode != 0 {
		err = IgnoreRefusal(p.Chmod(mode))
	}
	if err == nil && durable {
		err = p.Sync()
	}
	if err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

// OwnerOfNew returns the owner of new files in the directory, because a server may map users. It creates
// one and removes it.
func (d *Dir) OwnerOfNew() (uint32, error) {
	p, err := d.Create(false)
	if err != nil {
		return 0, err
	}
	defer p.Abort()
	info, err := p.Stat()
	return info.UID, err
}

// CreateUnnamed is Create(false) of a file that has the permission bits of mode from the
// start, except those that the umask clears. No other process can open it before it has a
// name. If the system has no unnamed files, the file has a temporary name and mode 0600; Mode
// returns it.
func (d *Dir) CreateUnnamed(mode uint32) (*Pending, error) {
	if err := d.fault(OpCreate, ""); err != nil {
		return nil, err
	}
	p, err := d.createUnnamed(mode)
	if err == nil || !Unsupported(err) {
		return p, err
	}
	return d.createNamed()
}

// Mode returns the mode that the file was created with. The umask and the file system may
// have given it another one.
func (p *Pending) Mode() uint32 { return p.mode }

// CreateAs is Create(false) for a caller that chooses the temporary name, so that a later run can
// find it. The file has this name from the start only if the system has no unnamed files, and the
// error is then EEXIST if the name exists. Settle gives it the name in any case.
func (d *Dir) CreateAs(temp string) (*Pending, error) {
	if err := d.fault(OpCreate, ""); err != nil {
		return nil, err
	}
	p, err := d.createUnnamed(privateMode)
	if err == nil || !Unsupported(err) {
		return p, err
	}
	o, err := d.createTemp(temp)
	if err != nil {
		return nil, err
	}
	p = d.pending(o, temp)
	if err := d.made(nil, OpCreate, temp, ""); err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

// Settle closes a complete file of CreateAs and leaves it under its temporary name. The error is
// EEXIST if another file has that name. After an error the caller must call Abort.
func (p *Pending) Settle(temp string) error {
	if p.temp == "" {
		return p.Commit(temp)
	}
	return p.Keep()
}

// createNamed begins a new file that has a temporary name.
func (d *Dir) createNamed() (*Pending, error) {
	for {
		name := d.TempName()
		o, err := d.createTemp(name)
		if err == syscall.EEXIST {
			continue
		}
		if err != nil {
			return nil, err
		}
		p := d.pending(o, name)
		if err := d.made(nil, OpCreate, name, ""); err != nil {
			p.Abort()
			return nil, err
		}
		return p, nil
	}
}

func (d *Dir) pending(o Object, name string) *Pending {
	o.descriptor = d.opened(name)
	return &Pending{File: File{Object: o}, dir: d, temp: name, mode: privateMode}
}

// Reopen opens, for reading and writing, the temporary name in d that an interrupted run has
// left. The result is like that of Create. The error is not nil for a link, a directory, a
// fifo or a device, and for a file of another owner or with several names.
func (d *Dir) Reopen(name string, owner uint32) (*Pending, Info, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, Info{}, err
	}
	o, err := d.openTemp(name, owner)
	if err != nil {
		return nil, Info{}, err
	}
	return d.ourTemp(o, name, owner)
}

// ourTemp takes over o, which was opened as the temporary name. The error is errNotOurTemp if
// another file has its name meanwhile.
func (d *Dir) ourTemp(o Object, name string, owner uint32) (*Pending, Info, error) {
	p := d.pending(o, name)
	info, err := p.Stat()
	if err == nil && !isOurTemp(info, owner) {
		err = errNotOurTemp
	}
	if err != nil {
		p.Close()
		return nil, Info{}, err
	}
	return p, info, nil
}

// Name returns the file's temporary name. It returns "" if the file has none, and after
// Commit, Keep or Abort.
func (p *Pending) Name() string {
	if p.dir == nil {
		return ""
	}
	return p.temp
}

// Keep closes the file and leaves it under its temporary name, for Reopen in a later run. It
// returns an error for a file without a name. After an error the caller must call Abort.
// Without one, Abort does nothing any more.
func (p *Pending) Keep() error {
	if p.temp == "" {
		return errNoTemp
	}
	if err := p.closeFile(); err != nil {
		return err
	}
	p.dir = nil
	return nil
}

func (p *Pending) closeFile() error {
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.close()
	if err == nil {
		err = p.fault(OpCloseFile, "")
	}
	return err
}
