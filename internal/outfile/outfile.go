// Package outfile writes the files that a command writes besides its work: the HTML report, the
// state of a scrub, metrics. Each appears complete under its name or not at all, and replaces only a
// file of its own form.
package outfile

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// Form describes the files of one kind.
type Form struct {
	Name string // name with its article in messages: "a report of Sealift"
	Mark string // text in the first markZone bytes of each such file
	Mode uint32 // permissions; 0 for those of the umask
}

const markZone = 512 // bytes

// Place is the path of a file to write.
type Place struct {
	Path string // path in the form in which the user gave it

	form      Form
	fs        *fsys.FS
	dir, name string
	had       *fsys.Info // the existing file; nil if there is none
}

// ErrExchanged means that Write would replace a file that it does not know.
var ErrExchanged = errors.New("another process has created or changed it since the run began")

// Open finds the place of a file. It returns an error if the directory does not exist or is not
// writable, or if a file of another form exists there. It writes nothing. sys is nil for the
// system's files.
func Open(sys *fsys.FS, path string, form Form) (*Place, error) {
	p := At(path)
	p.fs, p.form = sys, form
	absolute, err := fsys.AbsolutePath(path)
	if err != nil {
		return nil, err
	}
	if path == "" || os.IsPathSeparator(path[len(path)-1]) {
		return nil, errors.New("the name of a file is missing")
	}
	for name := range strings.SplitSeq(filepath.Clean(absolute), string(filepath.Separator)) {
		if incomplete.IsReserved(name, true, fsys.Unknown) {
			return nil, fmt.Errorf("the name %s is for unfinished copies", quote.Name(name))
		}
	}
	dir, err := p.fs.OpenTrustedRoot(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("its directory does not exist; create it, or choose another")
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if !dir.Writable() {
		return nil, errors.New("its directory is not writable; choose another")
	}
	p.had, err = p.existing(dir)
	return p, err
}

// At returns the place of a file of any form. It is for Below, Is and IsFile.
func At(path string) *Place {
	dir, name := filepath.Split(path) // not Dir, which removes "link/.." from the path
	if dir == "" {
		dir = "." + string(filepath.Separator)
	}
	return &Place{Path: path, dir: dir, name: name}
}

// Read opens the existing file; nil if there is none. The caller must close it.
func (p *Place) Read() (*fsys.File, fsys.Info, error) {
	if p.had == nil {
		return nil, fsys.Info{}, nil
	}
	dir, err := p.fs.OpenTrustedRoot(p.dir)
	if err != nil {
		return nil, fsys.Info{}, err
	}
	defer dir.Close()
	f, info, err := dir.Open(p.name)
	if err == nil && !info.SameState(*p.had) {
		f.Close()
		return nil, info, ErrExchanged
	}
	return f, info, err
}

// existing returns the file of the form that has the name, or nil if the name does not exist.
// Another kind of file is an error.
func (p *Place) existing(dir *fsys.Dir) (*fsys.Info, error) {
	info, err := dir.Lstat(p.name)
	if fsys.NoSuchFile(err) {
		return nil, nil //nolint:nilnil // nothing is there
	}
	if err != nil {
		return nil, err
	}
	if info.Kind != fsys.Regular {
		return nil, fmt.Errorf("it is a %s, and not %s; choose another name", info.Kind, p.form.Name)
	}
	f, info, err := dir.Open(p.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start := make([]byte, markZone)
	n, err := fsys.ReaderAt{File: f}.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !strings.Contains(string(start[:n]), p.form.Mark) {
		return nil, fmt.Errorf("it exists and is not %s; choose another name", p.form.Name)
	}
	return &info, nil
}

// Below returns the path of the place below the directory tree, "" if it is elsewhere or that
// is unknown. It compares identities, not names.
func (p *Place) Below(tree string) string {
	root, err := os.Stat(tree)
	if err != nil {
		return ""
	}
	dir, below, ok := p.anchor()
	if !ok {
		return ""
	}
	for {
		info, err := os.Stat(dir)
		switch {
		case err != nil:
			return ""
		case os.SameFile(info, root):
			return below
		case dir == filepath.Dir(dir):
			return ""
		}
		dir, below = filepath.Dir(dir), filepath.Join(filepath.Base(dir), below)
	}
}

// Is reports whether the place is that of another file, which need not exist.
func (p *Place) Is(file string) bool {
	if have, err := os.Stat(file); err == nil {
		return p.IsFile(have)
	}
	dirA, belowA, okA := p.anchor()
	dirB, belowB, okB := At(file).anchor()
	return okA && okB && fsys.SameName(belowA, belowB) && sameFile(dirA, dirB)
}

// IsFile reports whether the place is that of an existing file. A character device such as
// /dev/null is never the same file, because it keeps nothing.
func (p *Place) IsFile(info fs.FileInfo) bool {
	mine, err := os.Stat(p.dir + p.name)
	return err == nil && info.Mode()&fs.ModeCharDevice == 0 && os.SameFile(info, mine)
}

// anchor returns the nearest directory of the place that exists, without symbolic links, and the
// path below it. ok is false if that is unknown.
func (p *Place) anchor() (dir, below string, ok bool) {
	dir, err := fsys.AbsolutePath(p.dir)
	if err != nil {
		return "", "", false
	}
	below = p.name
	for {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return real, below, true
		}
		dir = filepath.Clean(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", "", false
		}
		dir, below = filepath.Dir(dir), filepath.Join(filepath.Base(dir), below)
	}
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// Write writes the file by calling render. The file is complete and synced before it gets its
// name; otherwise the existing file stays. A later Write replaces it again.
func (p *Place) Write(render func(io.Writer) error) error {
	dir, err := p.fs.OpenTrustedRoot(p.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := dir.Compose(cmp.Or(p.form.Mode, 0o666&^fsys.Umask()), true, func(w *fsys.Writer) error {
		buffered := bufio.NewWriterSize(w, 64<<10)
		return cmp.Or(render(buffered), buffered.Flush())
	})
	if err != nil {
		return err
	}
	defer file.Abort()
	if err := p.commit(dir, file); err != nil {
		return err
	}
	if p.had, err = p.existing(dir); err != nil {
		return err
	}
	return dir.Sync()
}

// commit gives the file its name, if the existing file is still the one that Open or Write has
// left.
func (p *Place) commit(dir *fsys.Dir, file *fsys.Pending) error {
	if p.had == nil {
		err := file.Commit(p.name)
		if errors.Is(err, fs.ErrExist) {
			return ErrExchanged
		}
		return err
	}
	switch now, err := p.existing(dir); {
	case err != nil:
		return err
	case now == nil || !now.SameState(*p.had):
		return ErrExchanged
	}
	return file.CommitReplacing(p.name)
}
