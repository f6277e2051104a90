package fsys

// linkTarget returns where the symbolic link leads that link has open. It reads the link by its name,
// and then checks that the name is still that of the same link.
func (d *Dir) linkTarget(name string, link *Object) (string, error) {
	target, err := d.readlink(name)
	if err != nil {
		return "", err
	}
	before, err := link.stat()
	if err != nil {
		return "", err
	}
	now, err := d.lstat(name)
	if err == nil && !now.SameState(before) {
		err = ErrMoved
	}
	return target, err
}

// followedBySystem is false: no link of macOS leads to an object without a path.
func (o *Object) followedBySystem() bool { return false }
