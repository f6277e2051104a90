//go:build !linux && !darwin

package fsys

// CreateClone is Create of a file that shares all blocks of another, which is not
// done here: always refused for the pair. FreeBSD has no call for it. That of
// Windows (FSCTL_DUPLICATE_EXTENTS_TO_FILE) wants ReFS, whole clusters, at most
// 4 GiB a call, and a target that is sparse or checksummed as the source is.
func (d *Dir) CreateClone(*File, bool) (*Pending, error) {
	err := d.lacks(OpClone)
	return nil, refused(err, reachOf(err))
}
