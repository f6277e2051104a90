package engine

import (
	"io/fs"
	"path"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// looker describes files below a directory by the paths that a manifest gives:
// name by name, never following a link or leaving the directory. It keeps the
// directories of the last path open for the next one, which is near where paths
// come sorted.
type looker struct {
	root  *fsys.Dir
	names []string    // of the open directories, from the root down
	dirs  []*fsys.Dir // the same
}

func (l *looker) lstat(name string) (fsys.Info, error) {
	parts := strings.Split(path.Clean(name), "/")
	for _, part := range parts {
		if part == ".." || part == "" {
			return fsys.Info{}, fs.ErrNotExist
		}
	}
	above := parts[:len(parts)-1]
	same := 0
	for same < len(above) && same < len(l.names) && above[same] == l.names[same] {
		same++
	}
	l.closeFrom(same)
	dir := l.root
	if same > 0 {
		dir = l.dirs[same-1]
	}
	for _, part := range above[same:] {
		next, err := dir.OpenDir(part)
		if err != nil {
			return fsys.Info{}, err
		}
		l.names, l.dirs = append(l.names, part), append(l.dirs, next)
		dir = next
	}
	return dir.Lstat(parts[len(parts)-1])
}

func (l *looker) close() { l.closeFrom(0) }

func (l *looker) closeFrom(depth int) {
	for _, d := range l.dirs[depth:] {
		d.Close()
	}
	l.names, l.dirs = l.names[:depth], l.dirs[:depth]
}
