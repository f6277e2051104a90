package catalog

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// MoveBack renames the manifests at root that a run has moved aside back to their names, if
// no file that they list was replaced since. usual is the path of --manifest, or "". An
// existing name stays unchanged.
func MoveBack(root *fsys.Dir, hashes []hash.Algorithm, usual string) error {
	if usual = path.Clean(usual); usual == "." || path.IsAbs(usual) || strings.HasPrefix(usual, "../") {
		usual = "" // rule 6: a manifest outside never moves
	}
	n := names{hashes, usual}
	var aside []string
	err := root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		file, found := strings.CutPrefix(string(name), wasPrefix)
		for _, m := range n.matches(file) {
			if found && file == n.at(m.level, hashes[m.slot]) {
				aside = append(aside, file)
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, name := range aside {
		if err := moveBack(root, name); err != nil {
			return err
		}
	}
	if usual == "" {
		return nil
	}
	home, err := openHome(root, usual, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if home != root {
		defer home.Close()
	}
	return moveBack(home, path.Base(usual))
}

func moveBack(home *fsys.Dir, name string) error {
	if _, err := home.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err // nil if the name exists
	}
	err := home.Rename(wasName(name), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, home.Sync())
}
