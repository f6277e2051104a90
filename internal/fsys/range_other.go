//go:build !linux

package fsys

// CopyRange moves bytes from a file to another without their passing through the
// program, which is not done here: never handled, refused for the pair. macOS has
// no call for it, FreeBSD has one since 13.0 (copy_file_range), of which x/sys/unix
// knows nothing, and Windows one for whole files by their paths (CopyFile2).
func (f *File) CopyRange(_ *File, _, _ int64) (moved int64, handled bool, err error) {
	if err = f.fault(OpCopyRange, ""); err == nil {
		err = errNoFastPath
	}
	reach := reachOf(err)
	return 0, reach == NotRefused, refused(err, reach)
}
