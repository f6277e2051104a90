package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// route is what the paths of a run come to: which directory is read, which are
// written, under which name.
type route struct {
	dir     string // the source's directory
	id      fsys.ID
	name    string // the file's name in it; "" for a tree
	targets []destination
}

// destination is one target as resolved, before anything is touched.
type destination struct {
	given  string // as the user named it
	shown  string // dir as the user would write it
	dir    string // the directory that is written, absolute and without symbolic links as far as it exists
	name   string // the file's name in it; "" for a tree
	exists bool   // dir exists
	id     fsys.ID
	closed error  // why dir exists and cannot be opened
	anchor string // the nearest directory of dir that exists
	fs     *fsys.FS
}

// resolve finds out what the paths mean and refuses what makes no sense or is
// dangerous. It changes nothing.
func resolve(o *Options) (*route, error) {
	if o.Source == "" || len(o.Targets) == 0 {
		return nil, failure.Refuse("a source and at least one destination are needed")
	}
	src, err := os.Stat(o.Source)
	if err != nil {
		return nil, failure.Refuse("source %s: %s", quote.Name(o.Source), reason(err))
	}
	rt := &route{dir: o.Source}
	switch {
	case src.IsDir():
	case src.Mode().IsRegular():
		real, err := filepath.EvalSymlinks(o.Source)
		if err != nil {
			return nil, failure.Refuse("source %s: %s", quote.Name(o.Source), reason(err))
		}
		rt.dir, rt.name = filepath.Dir(real), filepath.Base(real)
	default:
		return nil, failure.Refuse("source %s is neither a directory nor a regular file", quote.Name(o.Source))
	}
	if rt.id, err = identityOf(o.FS, rt.dir); err != nil {
		return nil, failure.Refuse("source %s: %s", quote.Name(o.Source), reason(err))
	}
	if o.Filter != nil || o.Only != nil {
		if rt.name != "" {
			return nil, failure.Refuse("filters need a directory as source; %s is a file", quote.Name(o.Source))
		}
	}
	for _, given := range o.Targets {
		d, err := resolveTarget(o, src, given, rt.name != "")
		if err != nil {
			return nil, err
		}
		for _, other := range rt.targets {
			switch {
			case samePlace(other, d):
				return nil, failure.Refuse("destinations %s and %s are the same", quote.Name(other.given), quote.Name(given))
			case rt.name == "" && (below(other.dir, d.dir) || below(d.dir, other.dir)):
				return nil, failure.Refuse("of the destinations %s and %s, one lies inside the other", quote.Name(other.given), quote.Name(given))
			}
		}
		rt.targets = append(rt.targets, d)
	}
	return rt, checkManifests(o, rt, src)
}

func resolveTarget(o *Options, src fs.FileInfo, given string, single bool) (destination, error) {
	if given == "" {
		return destination{}, failure.Refuse("a destination has an empty name")
	}
	d := destination{given: given, shown: given, fs: o.FS}
	info, err := os.Stat(given)
	dangling := false
	if errors.Is(err, fs.ErrNotExist) {
		link, lerr := os.Lstat(given) // another run may have made a directory meanwhile
		dangling = lerr == nil && link.Mode()&fs.ModeSymlink != 0
	}
	switch {
	case err == nil && info.IsDir():
		d.exists = true
		if single {
			d.name = filepath.Base(o.Source)
			if info, err = os.Stat(filepath.Join(given, d.name)); err == nil && os.SameFile(src, info) {
				return d, failure.Refuse("%s and %s are the same file", quote.Name(o.Source), quote.Name(filepath.Join(given, d.name)))
			}
		}
	case err == nil && !info.Mode().IsRegular():
		return d, failure.Refuse("destination %s is a device or special file; sealift copies to directories and files", quote.Name(given))
	case err == nil && !single:
		return d, failure.Refuse("destination %s is a file; the contents of a directory cannot go there", quote.Name(given))
	case err == nil && os.SameFile(src, info):
		return d, failure.Refuse("%s and %s are the same file", quote.Name(o.Source), quote.Name(given))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return d, failure.Refuse("destination %s: %s", quote.Name(given), reason(err))
	case dangling && !single:
		return d, failure.Refuse("destination %s is a symbolic link to nothing", quote.Name(given))
	case single && endsInSlash(given):
		if err == nil {
			return d, failure.Refuse("destination %s is a file, not a directory", quote.Name(given))
		}
		d.name = filepath.Base(o.Source)
	case single:
		// Not filepath.Dir, which takes "link/.." for nothing.
		if d.shown, d.name = filepath.Split(given); d.shown == "" {
			d.shown = "."
		}
		if info, err := os.Stat(d.shown); err == nil {
			if !info.IsDir() {
				return d, failure.Refuse("destination %s: %s is not a directory", quote.Name(given), quote.Name(d.shown))
			}
			d.exists = true
		}
	}
	anchor, rest, err := anchorOf(d.shown)
	if err != nil {
		return d, failure.Refuse("destination %s: %s", quote.Name(given), reason(err))
	}
	// Windows says of "file\\" that there is none, and it is found without the slash.
	if info, err := os.Stat(anchor); err == nil && !info.IsDir() {
		return d, failure.Refuse("destination %s: %s is not a directory", quote.Name(given), quote.Name(anchor))
	}
	d.dir, d.anchor = filepath.Join(anchor, rest), anchor
	if d.exists {
		d.id, d.closed = identityOf(o.FS, d.dir)
	}
	if !single {
		if inside, err := isInside(d.dir, src); err != nil {
			return d, failure.Refuse("destination %s: %s", quote.Name(given), reason(err))
		} else if inside {
			return d, failure.Refuse("destination %s is the source or inside it", quote.Name(given))
		}
	}
	return d, nil
}

// identityOf is what tells the directory from one that is put in its place before it
// is used. It is opened, because what is mounted only then is another one.
func identityOf(sys *fsys.FS, dir string) (fsys.ID, error) {
	d, err := sys.OpenLookup(dir)
	if err != nil {
		return fsys.ID{}, err
	}
	defer d.Close()
	info, err := d.Stat()
	return info.ID, err
}

// openSource opens the source's directory, of which a single file needs only the name.
func (rt *route) openSource(sys *fsys.FS) (*fsys.Dir, fsys.Info, error) {
	open := sys.OpenRoot
	if rt.name != "" {
		open = sys.OpenLookup
	}
	d, err := open(rt.dir)
	return checked(d, rt.id, err)
}

// openRoot opens a directory that was resolved: fsys.ErrMoved if it is another one
// by now.
func openRoot(sys *fsys.FS, dir string, id fsys.ID) (*fsys.Dir, fsys.Info, error) {
	d, err := sys.OpenRoot(dir)
	return checked(d, id, err)
}

func checked(d *fsys.Dir, id fsys.ID, err error) (*fsys.Dir, fsys.Info, error) {
	if err != nil {
		return nil, fsys.Info{}, err
	}
	info, err := d.Stat()
	if err == nil && info.ID != id {
		err = fsys.ErrMoved
	}
	if err != nil {
		d.Close()
		return nil, info, err
	}
	return d, info, nil
}

// isInside reports whether dir, which is resolved but need not exist, is the
// directory root or lies below it: by identity, not by name.
func isInside(dir string, root fs.FileInfo) (bool, error) {
	for p := dir; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err == nil && os.SameFile(info, root) {
			return true, nil
		}
		if p == filepath.Dir(p) {
			return false, nil
		}
	}
}

// anchorOf splits path into the nearest ancestor that exists, absolute and with
// symbolic links resolved, and the rest. It takes the path as the system does:
// ".." behind a symbolic link leaves the link's target.
func anchorOf(path string) (anchor, rest string, err error) {
	if path, err = fsys.AbsolutePath(path); err != nil {
		return "", "", err
	}
	for p := path; ; {
		anchor, err := filepath.EvalSymlinks(p)
		if err == nil {
			return anchor, rest, nil
		}
		for len(p) > 0 && os.IsPathSeparator(p[len(p)-1]) {
			p = p[:len(p)-1]
		}
		// Windows says of a path through a file that it does not exist.
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			return "", "", errors.New(quote.Name(p) + " is not a directory")
		}
		parent, last := filepath.Split(p)
		if !errors.Is(err, fs.ErrNotExist) || last == "" || last == ".." {
			return "", "", err
		}
		p, rest = parent, filepath.Join(last, rest)
	}
}

func samePlace(a, b destination) bool {
	if fsys.SameName(a.dir, b.dir) {
		return fsys.SameName(a.name, b.name)
	}
	infoA, errA := os.Stat(a.dir)
	infoB, errB := os.Stat(b.dir)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB) && fsys.SameName(a.name, b.name)
}

// below reports whether the resolved path dir leads into top.
func below(dir, top string) bool {
	top = strings.TrimSuffix(top, string(filepath.Separator)) + string(filepath.Separator)
	return len(dir) >= len(top) && fsys.SameName(dir[:len(top)], top)
}

func endsInSlash(path string) bool {
	return path != "" && os.IsPathSeparator(path[len(path)-1])
}

// checkManifests refuses a --manifest that cannot work, a file's name that leaves no
// space for its manifest's, and manifests that would replace what is copied.
func checkManifests(o *Options, rt *route, src fs.FileInfo) error {
	switch {
	case o.Manifest == "":
	case len(o.Hashes) == 0:
		return failure.Refuse("--manifest needs a hash; with --hash none there is no manifest")
	case len(o.Hashes) > 1:
		return failure.Refuse("--manifest names one file, but %d hashes make a manifest each", len(o.Hashes))
	case filepath.IsAbs(o.Manifest) && len(rt.targets) > 1:
		return failure.Refuse("an absolute --manifest cannot serve %d destinations; give a path relative to each", len(rt.targets))
	case endsInSlash(o.Manifest):
		return failure.Refuse("--manifest %s names a directory", quote.Name(o.Manifest))
	}
	taken := map[string]bool{}
	for _, d := range rt.targets {
		for _, path := range d.manifests(o) {
			if name := filepath.Base(path); len(name) > maxName {
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

// manifests are the paths of the destination's manifests.
func (d *destination) manifests(o *Options) (paths []string) {
	switch {
	case filepath.IsAbs(o.Manifest):
		return []string{o.Manifest}
	case o.Manifest != "":
		return []string{filepath.Join(d.dir, o.Manifest)}
	}
	for _, a := range o.Hashes {
		paths = append(paths, filepath.Join(d.dir, fileManifestName(d.name, a)))
	}
	return paths
}

// checkManifest refuses a manifest of d at path where it would replace the source or a
// destination, or be in the source or in a journal. Files and directories are compared
// by identity, so neither links nor case hide one.
func (rt *route) checkManifest(o *Options, d *destination, path string, src fs.FileInfo) error {
	refuse := func(why string) error {
		if o.Manifest != "" {
			return failure.Refuse("--manifest %s %s; choose another", quote.Name(o.Manifest), why)
		}
		shown := filepath.Join(d.shown, filepath.Base(path))
		return failure.Refuse("the manifest %s %s; choose another with --manifest", quote.Name(shown), why)
	}
	info, err := os.Stat(path)
	if err == nil && o.Manifest != "" && !info.Mode().IsRegular() {
		return refuse("is not a regular file")
	}
	if err == nil && os.SameFile(info, src) {
		return refuse("is the source itself")
	}
	for _, other := range rt.targets {
		file := filepath.Join(other.dir, other.name)
		have, absent := os.Stat(file)
		if other.name != "" && (fsys.SameName(filepath.Clean(path), file) || err == nil && absent == nil && os.SameFile(info, have)) {
			return refuse("is the destination itself")
		}
	}
	if o.Manifest == "" { // it is in the destination's directory, which was checked
		return nil
	}
	anchor, rest, err := anchorOf(path)
	if err != nil {
		return failure.Refuse("--manifest %s: %s", quote.Name(o.Manifest), reason(err))
	}
	place := filepath.Join(anchor, rest)
	if rt.name == "" {
		if inside, err := isInside(place, src); err != nil {
			return failure.Refuse("--manifest %s: %s", quote.Name(o.Manifest), reason(err))
		} else if inside {
			return refuse("is inside the source, to which nothing is written")
		}
	}
	if below(place, d.dir) {
		place = place[len(d.dir):]
	}
	for name := range strings.SplitSeq(place, string(filepath.Separator)) {
		if len(name) >= len(fsys.Reserved) && strings.EqualFold(name[:len(fsys.Reserved)], fsys.Reserved) {
			return refuse("has a name that begins with " + quote.Name(fsys.Reserved) + ", as those do that are removed with an unfinished copy")
		}
	}
	return nil
}

// maxName is the longest name of a directory entry on the file systems of note.
const maxName = 255 // bytes

func fileManifestName(name string, a hash.Algorithm) string {
	if name == "" {
		return a.FileName()
	}
	return name + "." + a.Extension()
}

// reason is an error of the os package without the path, which is told already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return quote.Text(err.Error())
}
