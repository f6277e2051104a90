package catalog

import (
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// This file keeps lines without copying them, see record.Files. If all lines are marked and there
// are no new ones, the manifest stays and is not composed.

// checkMarked returns an error if marked lines may be other ones now than when they were marked,
// because another process has written into the previous manifest.
func (l *list) checkMarked(m *manifests) error {
	if m.Files.Marked() == nil {
		return nil
	}
	now, err := l.prev.file.Stat()
	if err == nil && !l.prev.isSame(now) {
		err = errMeddled
	}
	return err
}

// unchanged is equals for a manifest of which all lines stay, and which has no others. It
// returns "" if it does not know that. The file that is open as present has the path file.
func (l *list) unchanged(m *manifests, file string, present *fsys.File, info fsys.Info) (n manifest.Counts, digest string, err error) {
	if m.Files.Marked() == nil || m.Files.Changed || l.prev.aside || l.prev.path != file || !l.prev.index.AllStay() {
		return n, "", nil
	}
	if !l.prev.isSame(info) || info.Ctime != l.prev.info.Ctime {
		return n, "", nil
	}
	sum, err := digestOfOpen(present, info.Size, hash.SHA256)
	if err != nil {
		return n, "", err
	}
	n.Lines = l.prev.index.Len()
	return n, hash.SHA256.Text(sum), nil
}
