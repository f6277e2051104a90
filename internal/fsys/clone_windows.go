package fsys

// CreateClone is not supported: it always returns a refusal for the pair of devices. The call of
// Windows (FSCTL_DUPLICATE_EXTENTS_TO_FILE) needs ReFS, complete clusters, at most 4 GiB in a
// call, and a target that is sparse or checksummed like the source.
func (d *Dir) CreateClone(*File, bool) (*Pending, error) {
	err := d.lacks(OpClone)
	return nil, refused(err, reachOf(err))
}
