package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// volume is the volume that holds a tree, before the run.
type volume struct {
	fsys.Volume
	free int64 // free bytes, -1 if unknown
}

// volumes are the volumes of the destinations, by their paths as given.
type volumes map[string]volume

// at returns the volume of a destination.
func (v volumes) at(path string) volume {
	if found, ok := v[path]; ok {
		return found
	}
	return volume{free: -1}
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
	for { // one round for each directory that does not exist
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

// header names the volume of each destination, before the bar appears: if a disk is not mounted,
// that is the moment to stop.
func (r *copyReporter) header() {
	stderr := r.cmd.ErrOrStderr()
	if _, isTerminal := terminal(stderr); r.progress.Resolve(isTerminal, r.quiet) != progress.ModeBar || inBackground(stderr) {
		return
	}
	for _, path := range r.flags.options.Targets {
		if text := r.volumes[path].text(); text != "" {
			r.screen.Line(quote.Name(path) + " is on " + text)
		}
	}
}

// text describes a volume on one line: "'RAID A', exfat, /dev/sdb1, 1.20 TB free". Without what
// is unknown, it may be empty.
func (v volume) text() string {
	var parts []string
	if v.Label != "" {
		parts = append(parts, quote.Name(v.Label))
	}
	if v.FileSystem != "" {
		parts = append(parts, quote.Text(v.FileSystem))
	}
	if v.Source != "" && v.Source != v.FileSystem { // "tmpfs" twice says nothing
		parts = append(parts, quote.Text(v.Source))
	}
	if v.free >= 0 {
		parts = append(parts, units.Size(v.free)+" free")
	}
	return strings.Join(parts, ", ")
}

// volumeJSON is the volume of a destination, before the run.
type volumeJSON struct {
	Label      string `json:"label"`       // The label of the volume.
	UUID       string `json:"uuid"`        // The UUID of the file system, or its serial number if it has no UUID.
	FileSystem string `json:"file_system"` // The type of the file system, for example ext4.
	Device     string `json:"device"`      // The device or the share that is mounted.
	Available  *int64 `json:"available"`   // How many bytes an ordinary user could write; null if unknown.
}

func newVolumeJSON(v volume) volumeJSON {
	j := volumeJSON{Label: v.Label, UUID: v.UUID, FileSystem: v.FileSystem, Device: v.Source}
	if v.free >= 0 {
		j.Available = &v.free
	}
	return j
}
