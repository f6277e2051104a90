package route

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// ManifestPlace resolves file, the value of --manifest. If the manifest is below the
// destination, usual is its path there, with slashes. Otherwise outside is its path. Both
// are empty if file is empty.
func (d *Destination) ManifestPlace(file string) (usual, outside string) {
	if file == "" {
		return "", ""
	}
	rel := filepath.Clean(file)
	outside = filepath.Join(d.Dir, file)
	if filepath.IsAbs(file) {
		outside = file
		anchor, rest, err := anchorOf(file)
		if err == nil {
			rel, err = filepath.Rel(d.Dir, filepath.Join(anchor, rest))
		}
		if err != nil {
			return "", outside
		}
	}
	if rel = filepath.ToSlash(rel); rel == ".." || strings.HasPrefix(rel, "../") {
		return "", outside
	}
	return rel, ""
}

// checkManifests refuses a --manifest that cannot work, a file whose name is too long to
// add the suffix of a manifest, and manifests that would replace copied files.
func checkManifests(o *Options, rt *Route, src fs.FileInfo) error {
	switch {
	case o.Manifest == "":
	case len(o.Hashes) == 0:
		return failure.Refuse("--manifest needs a hash; with --hash none there is no manifest")
	case len(o.Hashes) > 1:
		return failure.Refuse("--manifest names one file, but %d hashes make a manifest each", len(o.Hashes))
	case filepath.IsAbs(o.Manifest) && len(rt.Destinations) > 1:
		return failure.Refuse("an absolute --manifest cannot serve %d destinations; give a path relative to each", len(rt.Destinations))
	case endsInSlash(o.Manifest):
		return failure.Refuse("--manifest %s names a directory", quote.Name(o.Manifest))
	}
	taken := map[string]bool{}
	for _, d := range rt.Destinations {
		for _, path := range d.manifests(o) {
			if name := filepath.Base(path); len(name) > fsys.MaxName {
				return failure.Refuse("%s is too long a name for a manifest; choose one with --manifest", quote.Name(name))
			}
			if err := rt.checkManifest(o, &d, path, src); err != nil {
				return err
			}
			if taken[path] {
				return failure.Refuse("--manifest %s is one file for several destinations", quote.Name(o.Manifest))
			}
			taken[path] = true
		}
	}
	return nil
}

// manifests returns the paths of the destination's manifests.
func (d *Destination) manifests(o *Options) (paths []string) {
	switch {
	case filepath.IsAbs(o.Manifest):
		return []string{o.Manifest}
	case o.Manifest != "":
		return []string{filepath.Join(d.Dir, o.Manifest)}
	}
	for _, a := range o.Hashes {
		name := a.FileName()
		if d.Name != "" {
			name = d.Name + "." + a.Extension()
		}
		paths = append(paths, filepath.Join(d.Dir, name))
	}
	return paths
}

// checkManifest refuses a manifest of d at path if it would replace the source or a
// destination, or if it would be in the source or in a journal.
func (rt *Route) checkManifest(o *Options, d *Destination, path string, src fs.FileInfo) error {
	refuse := func(why string) error {
		if o.Manifest != "" {
			return failure.Refuse("--manifest %s %s; choose another", quote.Name(o.Manifest), why)
		}
		shown := filepath.Join(d.Shown, filepath.Base(path))
		return failure.Refuse("the manifest %s %s; choose another with --manifest", quote.Name(shown), why)
	}
	info, err := os.Stat(path)
	if err == nil && o.Manifest != "" && !info.Mode().IsRegular() {
		return refuse("is not a regular file")
	}
	if err == nil && os.SameFile(info, src) {
		return refuse("is the source itself")
	}
	for _, other := range rt.Destinations {
		file := filepath.Join(other.Dir, other.Name)
		have, absent := os.Stat(file)
		if other.Name != "" && (fsys.SameName(filepath.Clean(path), file) || err == nil && absent == nil && os.SameFile(info, have)) {
			return refuse("is the destination itself")
		}
	}
	if o.Manifest == "" { // it is in the destination's directory, which was checked
		return nil
	}
	anchor, rest, err := anchorOf(path)
	if err != nil {
		return failure.Refuse("--manifest %s: %s", quote.Name(o.Manifest), Reason(err))
	}
	place := filepath.Join(anchor, rest)
	if rt.Name == "" {
		if inside, err := isInside(place, src); err != nil {
			return failure.Refuse("--manifest %s: %s", quote.Name(o.Manifest), Reason(err))
		} else if inside {
			return refuse("is inside the source, which Sealift never changes")
		}
	}
	if below(place, d.Dir) {
		place = place[len(d.Dir):]
	}
	for name := range strings.SplitSeq(place, string(filepath.Separator)) {
		if fsys.IsTemp(name) || fsys.IsJournal(name) {
			return refuse("has a name that Sealift reserves: " + quote.Name(name))
		}
	}
	return nil
}
