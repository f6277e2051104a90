// Package route resolves the source and the destinations of a copy, and refuses
// combinations that cannot work or are dangerous. It changes nothing.
//
// Paths mean the same as for the system: ".." behind a symbolic link leaves the link's
// target. Existing directories are compared by device and inode, so links and case cannot
// hide that two paths lead to the same one.
package route

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

// Options say which source is copied to which destinations.
type Options struct {
	Source   string   // path of a directory or a regular file
	Targets  []string // paths of the destinations, at least one
	Hashes   []hash.Algorithm
	Manifest string // the value of --manifest; "" for the usual name in each destination
	Backup   string // the value of --backup-dir; "" if replaced files are not kept
	Filtered bool   // true if filters leave out parts of the source
	// Payload is the directory in each target that is written, if each is going to be a
	// bag. Otherwise it is "".
	Payload string
	// AllowUnmounted: paths may be where a volume is mounted usually, and none is.
	AllowUnmounted bool
	FS             *fsys.FS // nil for the system's files
}

// Route is the result: the directory to read, the directories to write, and the names in
// them.
type Route struct {
	Name         string // the name of a single file in the source's directory; "" for a tree
	Destinations []Destination

	dir string // the source's directory
	id  fsys.ID
	fs  *fsys.FS
}

// Destination describes one target before the copy changes it.
type Destination struct {
	Given  string // the path that the user gave
	Shown  string // Dir in the form in which the user would write it
	Dir    string // the directory that is written, absolute and without symbolic links as far as it exists
	Name   string // the file's name in it; "" for a tree
	BagDir string // the root of the bag that has Dir as its payload; "" if no bag is made
	Exists bool   // true if Dir exists
	Anchor string // the nearest directory of Dir that exists
	Backup *Backup
	FS     *fsys.FS

	id     fsys.ID
	closed error    // the reason why an existing Dir cannot be opened
	shown  []string // names for ShowsSource
}

// Resolve resolves the paths. The error is a *failure.RefusedError.
func Resolve(o Options) (*Route, error) {
	if o.Source == "" || len(o.Targets) == 0 {
		return nil, failure.Refuse("a source and at least one destination are needed")
	}
	src, err := os.Stat(o.Source)
	if err != nil {
		return nil, failure.Refuse("source %s: %s", quote.Name(o.Source), Reason(err))
	}
	rt := &Route{dir: o.Source, fs: o.FS}
	switch {
	case src.IsDir():
	case src.Mode().IsRegular():
		real, err := filepath.EvalSymlinks(o.Source)
		if err != nil {
			return nil, failure.Refuse("source %s: %s", quote.Name(o.Source), Reason(err))
		}
		rt.dir, rt.Name = filepath.Dir(real), filepath.Base(real)
	default:
		return nil, failure.Refuse("source %s is neither a directory nor a regular file; sealift stream copies devices and pipes", quote.Name(o.Source))
	}
	if rt.id, err = identityOf(o.FS, rt.dir); err != nil {
		return nil, failure.Refuse("source %s: %s", quote.Name(o.Source), Reason(err))
	}
	if o.Filtered && rt.Name != "" {
		return nil, failure.Refuse("filters need a directory as source; %s is a file", quote.Name(o.Source))
	}
	if o.Payload != "" && rt.Name != "" {
		return nil, failure.Refuse("--bag needs a directory as source; %s is a file", quote.Name(o.Source))
	}
	for _, given := range o.Targets {
		d, err := o.resolve(src, given, rt.Name != "")
		if err != nil {
			return nil, err
		}
		for _, other := range rt.Destinations {
			switch {
			case samePlace(other, d):
				return nil, failure.Refuse("destinations %s and %s are the same", quote.Name(other.Given), quote.Name(given))
			case rt.Name == "" && (below(other.top(), d.top()) || below(d.top(), other.top())):
				return nil, failure.Refuse("of the destinations %s and %s, one lies inside the other", quote.Name(other.Given), quote.Name(given))
			}
		}
		rt.Destinations = append(rt.Destinations, d)
	}
	if err := rt.checkMounts(&o); err != nil {
		return nil, err
	}
	if err := checkManifests(&o, rt, src); err != nil {
		return nil, err
	}
	return rt, resolveBackups(&o, rt, src)
}

func (o *Options) resolve(src fs.FileInfo, given string, single bool) (Destination, error) {
	if o.Payload != "" {
		return resolveBag(o, src, given)
	}
	return resolveTarget(o, src, given, single)
}

func resolveTarget(o *Options, src fs.FileInfo, given string, single bool) (Destination, error) {
	if given == "" {
		return Destination{}, failure.Refuse("a destination has an empty name")
	}
	d := Destination{Given: given, Shown: given, FS: o.FS}
	info, err := os.Stat(given)
	dangling := false
	if errors.Is(err, fs.ErrNotExist) {
		link, lerr := os.Lstat(given) // another run may have made a directory meanwhile
		dangling = lerr == nil && link.Mode()&fs.ModeSymlink != 0
	}
	switch {
	case err == nil && info.IsDir():
		d.Exists = true
		if single {
			d.Name = filepath.Base(o.Source)
			if info, err = os.Stat(filepath.Join(given, d.Name)); err == nil && os.SameFile(src, info) {
				return d, failure.Refuse("%s and %s are the same file", quote.Name(o.Source), quote.Name(filepath.Join(given, d.Name)))
			}
		}
	case err == nil && !info.Mode().IsRegular():
		return d, failure.Refuse("destination %s is a device or special file; sealift copies to directories and files", quote.Name(given))
	case err == nil && !single:
		return d, failure.Refuse("destination %s is a file; the contents of a directory cannot go there", quote.Name(given))
	case err == nil && os.SameFile(src, info):
		return d, failure.Refuse("%s and %s are the same file", quote.Name(o.Source), quote.Name(given))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return d, failure.Refuse("destination %s: %s", quote.Name(given), Reason(err))
	case dangling && !single:
		return d, failure.Refuse("destination %s is a symbolic link to nothing", quote.Name(given))
	case single && endsInSlash(given):
		if err == nil {
			return d, failure.Refuse("destination %s is a file, not a directory", quote.Name(given))
		}
		d.Name = filepath.Base(o.Source)
	case single:
		// Not filepath.Dir, which removes "link/.." from the path.
		if d.Shown, d.Name = filepath.Split(given); d.Shown == "" {
			d.Shown = "."
		}
		if info, err := os.Stat(d.Shown); err == nil {
			if !info.IsDir() {
				return d, failure.Refuse("destination %s: %s is not a directory", quote.Name(given), quote.Name(d.Shown))
			}
			d.Exists = true
		}
	}
	anchor, rest, err := anchorOf(d.Shown)
	if err != nil {
		return d, failure.Refuse("destination %s: %s", quote.Name(given), Reason(err))
	}
	// Windows reports "file\\" as missing, but finds it without the slash.
	if info, err := os.Stat(anchor); err == nil && !info.IsDir() {
		return d, failure.Refuse("destination %s: %s is not a directory", quote.Name(given), quote.Name(anchor))
	}
	d.Dir, d.Anchor = filepath.Join(anchor, rest), anchor
	if d.Exists {
		d.id, d.closed = identityOf(o.FS, d.Dir)
	}
	if !single {
		err = refuseInside(&d, src)
	}
	return d, err
}

// SourcePath returns the source's absolute path without symbolic links. An interrupted run
// and the next one name the source by it.
func (rt *Route) SourcePath() (string, error) {
	dir, err := filepath.Abs(rt.dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	return filepath.Join(dir, rt.Name), err
}

// OpenSource opens the source's directory. To copy a single file, search permission is
// enough. The error is fsys.ErrMoved if another directory has the path now.
func (rt *Route) OpenSource() (*fsys.Dir, fsys.Info, error) {
	open := rt.fs.OpenRoot
	if rt.Name != "" {
		open = rt.fs.OpenLookup
	}
	return openSame(open, rt.dir, rt.id)
}

// Open opens the destination's directory, which exists. The error is fsys.ErrMoved if
// another directory has the path now.
func (d *Destination) Open() (*fsys.Dir, error) {
	if d.closed != nil {
		return nil, d.closed
	}
	dir, _, err := openSame(d.FS.OpenTrustedRoot, d.Dir, d.id)
	return dir, err
}

func openSame(open func(string) (*fsys.Dir, error), path string, id fsys.ID) (*fsys.Dir, fsys.Info, error) {
	d, err := open(path)
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

// identityOf returns the identity of the directory, which later shows whether another
// directory has replaced it. It opens the directory, because that may mount another one.
func identityOf(sys *fsys.FS, dir string) (fsys.ID, error) {
	d, err := sys.OpenLookup(dir)
	if err != nil {
		return fsys.ID{}, err
	}
	defer d.Close()
	info, err := d.Stat()
	return info.ID, err
}

// IsBelow reports whether the directory dir is somewhere below the directory above. It
// compares identities, not names.
func IsBelow(dir, above string) bool {
	root, err := os.Stat(above)
	if err != nil {
		return false
	}
	if dir, err = fsys.AbsolutePath(dir); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	for err == nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		if info, statErr := os.Stat(dir); statErr == nil && os.SameFile(info, root) {
			return true
		}
	}
	return false
}

// IsInside reports whether path, which need not exist, is that of the directory root or is below it.
func IsInside(path string, root fs.FileInfo) (bool, error) {
	anchor, rest, err := anchorOf(path)
	if err != nil {
		return false, err
	}
	return isInside(filepath.Join(anchor, rest), root)
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
// symbolic links resolved, and the rest. It fails with a *fsys.LinkError if a link is not trusted.
func anchorOf(path string) (anchor, rest string, err error) {
	if err := fsys.CheckLinks(path); err != nil {
		return "", "", err
	}
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
		// Windows reports a path through a file as missing.
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

func samePlace(a, b Destination) bool {
	if !fsys.SameName(a.Name, b.Name) {
		return false
	}
	infoA, errA := os.Stat(a.Dir)
	infoB, errB := os.Stat(b.Dir)
	return fsys.SameName(a.Dir, b.Dir) || errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// below reports whether the resolved path dir leads into top.
func below(dir, top string) bool {
	top = strings.TrimSuffix(top, string(filepath.Separator)) + string(filepath.Separator)
	return len(dir) >= len(top) && fsys.SameName(dir[:len(top)], top)
}

func endsInSlash(path string) bool {
	return path != "" && os.IsPathSeparator(path[len(path)-1])
}

// Reason is the text of an error about a path that the message already contains.
func Reason(err error) string { return quote.Text(fsys.BareError(err).Error()) }
