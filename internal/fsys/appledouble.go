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
//   - Creating x removes a "._x" whose times are more than three minutes old.
//
// (vn_rename and xattrfile_remove in bsd/vfs/kpi_vfs.c of xnu.) So a copy of a card with such files
// would lose them, without an error. Sealift copies them as ordinary files. An x that begins with
// doublePrefix has no AppleDouble file itself, so temporaries have such names there, and an entry
// gets its final name only by renaming a temporary.

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

// making calls make, which creates an entry of the given name, so that the entry gets the name
// name. Temporaries and journals exclude other processes, so they are created directly.
func (d *Dir) making(name string, make func(name string) error) error {
	if strings.HasPrefix(name, doublePrefix) || IsTemp(name) || IsJournal(name) || !d.keepsDoubles() {
		return make(name)
	}
	temp := d.TempName()
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
	if strings.HasPrefix(oldName, doublePrefix) {
		return move(oldName)
	}
	temp := d.TempName()
	if err := d.renameHere(oldName, temp); err != nil {
		return err
	}
	err := d.renameHere(doublePrefix+temp, doublePrefix+oldName) // the kernel has renamed it
	if err == nil || err == unix.ENOENT || NameTooLong(err) {
		err = move(temp)
	}
	if err != nil {
		_ = d.renameHere(temp, oldName)
	}
	return err
}

func (d *Dir) renameHere(oldName, newName string) error {
	return retry(func() error { return d.calls().rename(d.fd, oldName, d.fd, newName) })
}
