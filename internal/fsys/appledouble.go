//go:build unix

package fsys

import (
	"strings"

	"golang.org/x/sys/unix"
)

// This file protects AppleDouble files, whose names begin with doublePrefix. If a file system has
// no extended attributes, such as FAT and exFAT, the kernel of macOS stores those of an entry x in
// "._x". It takes each file of that name for a part of x:
//
//   - Renaming x to y renames "._x" to "._y". If there is no "._x", it removes "._y".
//   - Removing x removes "._x".
//   - Creating x removes a "._x" whose times are more than three minutes old.
//
// (vn_rename and xattrfile_remove in bsd/vfs/kpi_vfs.c of xnu.) So a copy of a card with such files
// would lose them, without an error. Sealift copies them as ordinary files. The methods below
// protect them: a name with this prefix has no AppleDouble file itself.

func hasDouble(name string) bool { return !strings.HasPrefix(name, doublePrefix) }

// keepsDoubles reports whether the kernel has AppleDouble files on the directory's file system. It
// asks once.
func (d *Dir) keepsDoubles() bool {
	ask := d.calls().keepsDoubles
	if ask == nil {
		return false
	}
	d.doubles.Do(func() { d.doubles.kept = ask(d.fd) })
	return d.doubles.kept
}

// making calls make, which creates an entry of the given name, so that the entry gets the
// name name. Temporaries and journals exclude other processes, so they are created directly.
func (d *Dir) making(name string, make func(name string) error) error {
	if !hasDouble(name) || IsTemp(name) || IsJournal(name) || !d.keepsDoubles() {
		return make(name)
	}
	temp := doublePrefix + d.TempName()
	if err := make(temp); err != nil {
		return err
	}
	err := d.renameExclusively(temp, name)
	if err != nil && d.remove(temp) != nil {
		_ = d.removeDir(temp)
	}
	return err
}

// moving calls move, which renames the entry of the given name, for the entry oldName.
func (d *Dir) moving(oldName string, move func(oldName string) error) error {
	if !d.keepsDoubles() {
		return move(oldName)
	}
	d.caps.doubles.Lock()
	defer d.caps.doubles.Unlock()
	if !hasDouble(oldName) {
		return move(oldName)
	}
	temp := doublePrefix + d.TempName()
	err := d.keepDouble(oldName, func() error { return d.renameHere(oldName, temp) })
	if err != nil {
		return err
	}
	err = move(temp)
	if err != nil {
		_ = d.renameHere(temp, oldName)
	}
	return err
}

// removing calls remove, which removes the entry name.
func (d *Dir) removing(name string, remove func() error) error {
	if !hasDouble(name) || !d.keepsDoubles() {
		return remove()
	}
	d.caps.doubles.Lock()
	defer d.caps.doubles.Unlock()
	return d.keepDouble(name, remove)
}

// keepDouble calls change, which renames or removes the entry name. The entry's AppleDouble
// file, unless the entry is a temporary, has a temporary name in the meantime. The caller
// holds caps.doubles, so that no other goroutine creates the file then.
func (d *Dir) keepDouble(name string, change func() error) error {
	if IsTemp(name) {
		return change()
	}
	double, temp := doublePrefix+name, doublePrefix+d.TempName()
	err := d.renameHere(double, temp)
	if err == unix.ENOENT || NameTooLong(err) {
		return change()
	}
	if err != nil {
		return err
	}
	err = change()
	if back := d.renameHere(temp, double); err == nil {
		err = back
	}
	return err
}

func (d *Dir) renameHere(oldName, newName string) error {
	return retry(func() error { return d.calls().rename(d.fd, oldName, d.fd, newName) })
}
