package route

import (
	"path"
	"path/filepath"
	"slices"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// checkMounts refuses paths of volumes that are not mounted, and destinations that are a part of
// the source which is mounted a second time.
func (rt *Route) checkMounts(o *Options) error {
	src, err := rt.SourcePath()
	if err != nil {
		return failure.Refuse("source %s: %s", quote.Name(o.Source), Reason(err))
	}
	if err := o.refuseUnmounted("source", o.Source, src); err != nil {
		return err
	}
	mounts, err := fsys.ReadMounts()
	if err != nil {
		return failure.Refuse("source %s: the mount table cannot be read: %s", quote.Name(o.Source), Reason(err))
	}
	for i := range rt.Destinations {
		d := &rt.Destinations[i]
		if err := o.refuseUnmounted("destination", d.Given, d.Dir); err != nil {
			return err
		}
		if rt.Name != "" { // a single file is never copied to itself, see resolveTarget
			continue
		}
		d.shown = mounts.Shown(src, d.Dir)
		if slices.Contains(d.shown, ".") {
			return failure.Refuse("destination %s is a part of the source, which is mounted a second time", quote.Name(d.Given))
		}
	}
	return nil
}

func (o *Options) refuseUnmounted(what, given, dir string) error {
	if o.AllowUnmounted {
		return nil
	}
	return refuseUnmounted(what, given, dir)
}

// RefuseUnmountedFile refuses the path of a file, which need not exist, if it probably belongs to
// a volume that is not mounted. what is the role of the path: "output".
func RefuseUnmountedFile(what, given string) error {
	anchor, rest, err := anchorOf(given)
	if err != nil {
		return nil //nolint:nilerr // opening the file reports it
	}
	return refuseUnmounted(what, given, filepath.Join(anchor, rest))
}

// refuseUnmounted is RefuseUnmountedFile for an absolute path dir without symbolic links, which
// the user gave as given.
func refuseUnmounted(what, given, dir string) error {
	why, err := fsys.Unmounted(dir)
	if err != nil {
		return failure.Refuse("%s %s: cannot check whether its volume is mounted: %s", what, quote.Name(given), Reason(err))
	}
	if why != "" {
		return failure.Refuse("%s %s: its volume is probably not mounted: %s; mount the volume, or use --allow-unmounted", what, quote.Name(given), quote.Text(why))
	}
	return nil
}

// ShowsSource reports whether the mount table shows a part of the source at a path below the
// destination, or above that path. Writing there would write into the source.
func (d *Destination) ShowsSource(file string) bool {
	return slices.Contains(d.shown, filepath.FromSlash(path.Clean(file)))
}
