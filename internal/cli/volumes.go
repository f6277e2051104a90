package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// volume is the volume that holds a tree, before the run.
type volume struct {
	fsys.Volume
	free int64 // bytes, -1 if unknown
}

// volumeOf is [readVolume]. Tests replace it, so that directories are disks.
var volumeOf = readVolume

// readVolume returns the volume of path, which need not exist.
func readVolume(sys *fsys.FS, path string) volume {
	v := volume{free: -1}
	path, err := fsys.AbsolutePath(path)
	if err != nil {
		return v
	}
	for { // to the nearest directory that exists
		if info, err := os.Stat(path); err == nil && info.IsDir() || path == filepath.Dir(path) {
			break
		}
		path = filepath.Dir(path)
	}
	if dir, err := sys.OpenRoot(path); err == nil {
		defer dir.Close()
		v.Volume, v.free = dir.Volume(), dir.Available()
	}
	return v
}

// warnOneDevice warns of destinations that share a device.
func (r *copyReporter) warnOneDevice() {
	rest := r.flags.options.Targets
	for len(rest) > 1 {
		var names, others []string
		first := r.volumes[rest[0]]
		for i, path := range rest {
			if i == 0 || first.OnOneDevice(r.volumes[path].Volume) {
				names = append(names, quote.Name(path))
			} else {
				others = append(others, path)
			}
		}
		if last := len(names) - 1; last > 0 {
			r.warning("", "", errors.New(strings.Join(names[:last], ", ")+" and "+names[last]+
				" are on one device, and fail together"))
			r.oneDevice++
		}
		rest = others
	}
}
