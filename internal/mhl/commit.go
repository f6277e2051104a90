package mhl

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// finish writes a generation and its chain. It returns nil if there is nothing to record.
func (w *writer) finish(g *generation, sums *dirDigests) (*Reference, error) {
	o := w.order
	if o.Partial && !g.used {
		return nil, nil //nolint:nilnil // no generation is no error
	}
	h := &header{creator: o.Creator, process: o.Process, root: sums}
	if o.Partial {
		h.root = nil
	}
	var chain []Link
	var inherited []string
	if g.history != nil {
		chain, inherited = g.history.Chain, g.history.Ignore.Patterns()
	}
	above := o.Ignore
	if root := w.tree.At(""); root != nil {
		above = append(root.Ignore.Patterns()[:len(root.Ignore.Patterns()):len(root.Ignore.Patterns())], above...)
	}
	h.ignore = NewIgnore(append(inherited[:len(inherited):len(inherited)], above...)...).Patterns()

	home := w.tree.root
	if g.path != "" {
		var err error
		if home, _, err = w.finder.Parent(g.path + "/" + Folder); err != nil {
			return nil, err
		}
	}
	base := o.Name
	if g.path != "" {
		base = path.Base(g.path)
	}
	name := generationName(len(chain)+1, base, o.Creator)
	body, err := g.content()
	if err != nil {
		return nil, err
	}
	var link Link
	sha := sha256.New()
	err = inFolder(home, g.history == nil, o.Durable, func(folder *fsys.Dir) error {
		link, err = appendLink(folder, chain, name, nil, o.Durable, func(out io.Writer) error {
			return writeGeneration(io.MultiWriter(out, sha), h, o.Hashes, body, g.references)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote.Name(join(join(g.path, Folder), name)), err)
	}
	at := join(join(g.path, Folder), name)
	w.written = append(w.written, Written{at, hex.EncodeToString(sha.Sum(nil)), g.files})
	return &Reference{Path: at, C4: link.C4}, nil
}

var (
	// stagingName is the name of the directory of a new history until it is complete.
	stagingName = fsys.SharedTempName("ascmhl")

	// pendingName is the name of the next chain, until the generation that it adds has its
	// name.
	pendingName = fsys.SharedTempName("ascmhl_chain.xml")
)

// inFolder calls write with the directory ascmhl below home. The directory of a new history
// has another name until write has returned, so that the history appears when it is complete.
func inFolder(home *fsys.Dir, isNew, durable bool, write func(folder *fsys.Dir) error) error {
	folder, err := home.OpenDir(Folder)
	if err == nil || !isNew || !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return err
		}
		defer folder.Close()
		return write(folder)
	}
	if err := home.Mkdir(stagingName); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if folder, err = home.OpenDir(stagingName); err != nil {
		return err
	}
	err = empty(folder) // an interrupted run may have left files
	if err == nil {
		err = write(folder)
	}
	if err == nil {
		err = fsys.IgnoreRefusal(folder.Chmod(0o777 &^ fsys.Umask()))
	}
	folder.Close() // Windows may not rename a directory that is open
	if err != nil {
		return err
	}
	err = home.RenameNew(stagingName, Folder)
	if err == nil && durable {
		err = home.Sync()
	}
	return err
}

// empty removes the files that an interrupted run has left in a directory stagingName. If there is
// another file, empty removes nothing: another user, who may rename entries of the tree, may have
// given the name to a directory with other files.
func empty(dir *fsys.Dir) error {
	var names []string
	err := dir.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		names = append(names, string(name))
		return true
	})
	for _, name := range names {
		_, isGeneration := numberOf(name)
		isOwn := isGeneration || name == ChainName || name == readmeName || fsys.IsTemp(name)
		if !isOwn && !fsys.IsMadeByFileSystem(name) {
			return errors.Join(err, fmt.Errorf("%s has %s, which is not from Sealift; move that file away", quote.Name(stagingName), quote.Name(name)))
		}
	}
	for _, name := range names {
		err = errors.Join(err, dir.Remove(name))
	}
	return err
}

// appendLink adds a generation to a chain. If it is interrupted, readChainIn finds either the
// earlier chain or the new one. The generation gets the times of like, which may be nil.
func appendLink(folder *fsys.Dir, chain []Link, name string, like *fsys.Info, durable bool, write func(io.Writer) error) (Link, error) {
	sum := hash.C4.New()
	p, err := newFile(folder, like, durable, func(out io.Writer) error { return write(io.MultiWriter(out, sum)) })
	if err != nil {
		return Link{}, err
	}
	defer p.Abort()
	link := Link{name, sum.Sum(nil)}
	if err := folder.Remove(pendingName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return link, err
	}
	next := append(chain[:len(chain):len(chain)], link)
	if err := create(folder, pendingName, nil, durable, func(out io.Writer) error { return WriteChain(out, next) }); err != nil {
		return link, err
	}
	syncNames := func() error {
		if !durable {
			return nil
		}
		return folder.Sync()
	}
	if err := syncNames(); err != nil {
		return link, err
	}
	if err := p.Commit(name); err != nil {
		return link, err
	}
	if err := syncNames(); err != nil {
		return link, err
	}
	if err := folder.Rename(pendingName, ChainName); err != nil {
		return link, err
	}
	return link, syncNames()
}

// create writes a file that gets its name when it is complete.
func create(folder *fsys.Dir, name string, like *fsys.Info, durable bool, write func(io.Writer) error) error {
	p, err := newFile(folder, like, durable, write)
	if err != nil {
		return err
	}
	defer p.Abort()
	return p.Commit(name)
}

// newFile writes a file that has no name yet.
func newFile(folder *fsys.Dir, like *fsys.Info, durable bool, write func(io.Writer) error) (*fsys.Pending, error) {
	return folder.Compose(0o666&^fsys.Umask(), durable, func(w *fsys.Writer) error {
		err := write(w)
		if err == nil && like != nil {
			err = fsys.IgnoreRefusal(w.File.SetTimes(like.Atime, like.Mtime, like.Btime))
		}
		return err
	})
}

// maxName is the length of the longest name that all file systems can hold, in bytes.
const maxName = 255

// generationName returns the name of a generation: number, directory and time.
func generationName(number int, dir string, c Creator) string {
	prefix, suffix := fmt.Sprintf("%04d_", number), c.Time.UTC().Format("_2006-01-02_150405Z")+extension
	clean := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < 0x20 || r == 0xfffe || r == 0xffff || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, dir)
	for len(prefix)+len(clean)+len(suffix) > maxName {
		_, size := utf8.DecodeLastRuneInString(clean)
		clean = clean[:len(clean)-size]
	}
	return prefix + clean + suffix
}
