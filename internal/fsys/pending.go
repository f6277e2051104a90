package fsys

import "syscall"

// Pending is a file that is being written. It has no name, or a temporary one,
// with mode 0600, until Commit or CommitReplacing; Abort leaves nothing behind,
// Keep the temporary.
type Pending struct {
	File
	dir    *Dir   // nil when all is done
	temp   string // "" while the file has no name
	closed bool
}

// Create begins a new file in d, which must stay open until the end of it.
// named asks for a temporary name from the start, where it would otherwise have
// none: a file that a later run is to find needs one.
func (d *Dir) Create(named bool) (*Pending, error) {
	if err := d.fault(OpCreate, ""); err != nil {
		return nil, err
	}
	if !named {
		p, err := d.createUnnamed()
		if err == nil || !Unsupported(err) {
			return p, err
		}
	}
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
	return &Pending{File: File{Object: o}, dir: d, temp: name}
}

// Reopen takes up the temporary name that an interrupted run has left in d, for
// reading and writing; it is then as if Create had just made it. A link, a directory, a
// fifo or a device is not opened, and neither is a file of another owner or with
// another name.
func (d *Dir) Reopen(name string, owner uint32) (*Pending, Info, error) {
	if err := d.fault(OpOpen, name); err != nil {
		return nil, Info{}, err
	}
	o, err := d.openTemp(name, owner)
	if err != nil {
		return nil, Info{}, err
	}
	p := d.pending(o, name)
	info, err := p.Stat()
	if err == nil && !isOurTemp(info, owner) { // exchanged meanwhile
		err = errNotOurTemp
	}
	if err != nil {
		p.Close()
		return nil, Info{}, err
	}
	return p, info, nil
}

// Name returns the file's temporary name, "" while it has none and when all is
// done.
func (p *Pending) Name() string {
	if p.dir == nil {
		return ""
	}
	return p.temp
}
