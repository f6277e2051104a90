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

	folder, home, err := w.folder(g.path)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	base := o.Name
	if g.path != "" {
		base = path.Base(g.path)
	}
	name := generationName(len(chain)+1, base, o.Creator)
	body, err := g.content()
	if err != nil {
		return nil, err
	}
	c4, sha := hash.C4.New(), sha256.New()
	err = w.create(folder, name, false, func(out io.Writer) error {
		return writeGeneration(io.MultiWriter(out, c4, sha), h, o.Hashes, body, g.references)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", join(join(g.path, Folder), name), err)
	}
	link := Link{name, c4.Sum(nil)}
	chain = append(chain[:len(chain):len(chain)], link)
	err = w.create(folder, ChainName, g.history != nil, func(out io.Writer) error { return WriteChain(out, chain) })
	if err == nil && o.Durable {
		err = errors.Join(folder.Sync(), home.Sync())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", join(join(g.path, Folder), ChainName), err)
	}
	at := join(join(g.path, Folder), name)
	w.written = append(w.written, Written{at, hex.EncodeToString(sha.Sum(nil)), g.files})
	return &Reference{Path: at, C4: link.C4}, nil
}

// folder opens the directory ascmhl of a history, and creates it for a new one. home is the
// directory around it, open until the next call.
func (w *writer) folder(dir string) (folder, home *fsys.Dir, err error) {
	home = w.tree.root
	if dir != "" {
		if home, _, err = w.finder.Parent(dir + "/" + Folder); err != nil {
			return nil, nil, err
		}
	}
	if err = home.Mkdir(Folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, fmt.Errorf("%s: %w", join(dir, Folder), err)
	}
	created := err == nil
	folder, err = home.OpenDir(Folder)
	if err == nil && created {
		err = fsys.IgnoreRefusal(folder.Chmod(0o777 &^ fsys.Umask()))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", join(dir, Folder), err)
	}
	return folder, home, nil
}

// create writes a file that gets its name when it is complete.
func (w *writer) create(folder *fsys.Dir, name string, replace bool, write func(io.Writer) error) error {
	p, err := folder.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	if err := write(&fsys.Writer{File: &p.File}); err != nil {
		return err
	}
	if err := fsys.IgnoreRefusal(p.Chmod(0o666 &^ fsys.Umask())); err != nil {
		return err
	}
	if w.order.Durable {
		if err := p.Sync(); err != nil {
			return err
		}
	}
	if replace {
		return p.CommitReplacing(name)
	}
	return p.Commit(name)
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
