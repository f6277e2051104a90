package mhl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// History is one ascmhl directory.
type History struct {
	Path    string // path of the directory that has the history, relative to the tree; "" for the tree
	Chain   []Link
	Ignore  *Ignore // the patterns of the last generation
	refer   []Reference
	pending bool              // true if the chain still has its pending name: see appendLink
	renames map[string]string // path in earlier generations → path in later ones
	renamed int               // bytes of renames
}

// ChainError means that a history cannot be used: its files differ from those that its chain
// lists, or contradict each other. Err is a *failure.RefusedError if one of them cannot be read.
type ChainError struct {
	Path string // path of the file, or of the directory ascmhl
	Err  error
}

func (e *ChainError) Error() string { return quote.Name(e.Path) + ": " + e.Err.Error() }
func (e *ChainError) Unwrap() error { return e.Err }

// join joins the path of a history, which may be "", and a path relative to it.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func depthOf(path string) int {
	if path == "" {
		return 0
	}
	return 1 + strings.Count(path, "/")
}

// isHistory reports whether a directory with the name ascmhl has a chain or a generation.
func isHistory(folder *fsys.Dir) (bool, error) {
	found := false
	err := folder.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		_, generation := numberOf(string(name))
		found = generation || string(name) == ChainName
		return !found
	})
	return found, err
}

// Limits of the renamed paths of one history, because they are in memory.
const (
	maxRenames       = 1 << 18
	maxRenamedLength = 64 << 20 // bytes of all renamed paths
)

// load checks the history of a directory against its chain, and adds the entries of its
// generations to records. It returns nil if the directory has no history.
func load(dir *fsys.Dir, path string, into *records) (*History, error) {
	folder, err := dir.OpenDir(Folder)
	if errors.Is(err, fs.ErrNotExist) || err != nil && fsys.IsSymlinkRefusal(err) {
		return nil, nil //nolint:nilnil // no history is no error
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote.Name(join(path, Folder)), err)
	}
	defer folder.Close()
	if found, err := isHistory(folder); !found || err != nil {
		return nil, err
	}
	if !Representable(path) {
		return nil, &ChainError{join(path, Folder), errors.New("XML cannot hold the name of its directory")}
	}
	h := &History{Path: path, renames: map[string]string{}}
	at := join(path, Folder)
	if h.Chain, h.pending, err = readChainIn(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, &ChainError{at, errors.New("it has no " + ChainName)}
	}
	if err != nil {
		return nil, &ChainError{join(at, ChainName), err}
	}
	if err := h.findUnlisted(folder, at); err != nil {
		return nil, err
	}
	// The last generation first, so that the renames of later generations are known.
	for i, l := range slices.Backward(h.Chain) {
		g, err := h.loadGeneration(folder, l, i+1, into)
		if errors.Is(err, extsort.ErrTemporary) { // nothing is wrong with the history
			return nil, fmt.Errorf("%s: %w", quote.Name(at), err)
		}
		if err != nil {
			return nil, &ChainError{join(at, l.Name), err}
		}
		if i == len(h.Chain)-1 {
			h.Ignore, h.refer = NewIgnore(g.Ignore...), g.References
		}
	}
	return h, nil
}

// readChainIn reads the chain in a directory ascmhl. If appendLink was interrupted after the
// generation got its name, readChainIn returns the new chain, and pending is true.
func readChainIn(folder *fsys.Dir) (chain []Link, pending bool, err error) {
	chain, err = readChainFile(folder, ChainName)
	if err != nil {
		return nil, false, err
	}
	if next, err := readChainFile(folder, pendingName); err == nil && len(next) == len(chain)+1 && extends(next, chain) {
		if info, err := folder.Lstat(next[len(chain)].Name); err == nil && info.Kind == fsys.Regular {
			return next, true, nil
		}
	}
	return chain, false, nil
}

func readChainFile(folder *fsys.Dir, name string) ([]Link, error) {
	f, info, err := folder.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadChain(f.Reader(info.Size))
}

// findUnlisted refuses generations that the chain does not list.
func (h *History) findUnlisted(folder *fsys.Dir, at string) error {
	listed := map[string]bool{}
	for _, l := range h.Chain {
		listed[l.Name] = true
	}
	var unlisted string
	err := folder.Each(func(entry []byte, _ uint64, _ fsys.Kind) bool {
		name := string(entry)
		other := !strings.HasSuffix(name, extension) || strings.HasPrefix(name, "._") || fsys.IsTemp(name)
		if !other && !listed[name] {
			unlisted = name
		}
		return unlisted == ""
	})
	if err != nil {
		return &ChainError{at, err}
	}
	if unlisted != "" {
		return &ChainError{join(at, unlisted), errors.New("the chain does not list it")}
	}
	return nil
}

var (
	errGone    = errors.New("it does not exist, and the chain lists it")
	errChanged = errors.New("it has changed since it was written: its C4 ID is not the one that the chain lists")
)

// loadGeneration reads a generation once. It compares the C4 ID and adds the content to
// records.
func (h *History) loadGeneration(folder *fsys.Dir, l Link, number int, into *records) (*Generation, error) {
	f, info, err := folder.OpenRegular(l.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := hash.C4.New()
	in := io.TeeReader(f.Reader(info.Size), sum)
	renamed := map[string]string{}
	g, err := ReadGeneration(in, func(listed Listed) error {
		if listed.Previous != "" && listed.Previous != listed.Path {
			if len(renamed)+len(h.renames) == maxRenames {
				return fmt.Errorf("its history has more than %d renamed paths", maxRenames)
			}
			now := h.now(listed.Path) // an earlier path may be much shorter
			if h.renamed += len(listed.Previous) + len(now); h.renamed > maxRenamedLength {
				return fmt.Errorf("the renamed paths of its history have more than %d bytes", maxRenamedLength)
			}
			renamed[listed.Previous] = now
		}
		return into.add(join(h.Path, h.now(listed.Path)), listed, depthOf(h.Path), number)
	})
	if document, ok := errors.AsType[*safexml.Error](err); ok {
		return nil, failure.Refuse("it cannot be read: %s", document)
	}
	if _, copyErr := io.Copy(io.Discard, in); copyErr != nil {
		return nil, copyErr
	}
	if !bytes.Equal(sum.Sum(nil), l.C4) {
		return nil, errChanged
	}
	for from, to := range renamed {
		h.renames[from] = to
	}
	return g, err
}

// now returns the present path of a path in the generation that is being read: later
// generations may have renamed it.
func (h *History) now(path string) string {
	if len(h.renames) == 0 {
		return path
	}
	if to, ok := h.renames[path]; ok {
		return to
	}
	for end := strings.LastIndexByte(path, '/'); end > 0; end = strings.LastIndexByte(path[:end], '/') {
		if to, ok := h.renames[path[:end]]; ok { // a directory
			return to + path[end:]
		}
	}
	return path
}
