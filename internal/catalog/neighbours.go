package catalog

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// neighbours are the entries of a directory that concern the names of manifests. They have one of
// the names, also in another case, or one of the names and then a dot.
type neighbours []string

// neighboursOf lists a directory once. A directory that only its owner may list has none, because
// files can be opened by their names there.
func neighboursOf(dir *fsys.Dir, names ...string) (found neighbours, err error) {
	found, _, err = listNeighbours(dir, names, false)
	return found, err
}

// listNeighbours also lists, if beside is true, the entries with an extension of manifests beside one file,
// perhaps with a dot and more after it. It sorts them.
func listNeighbours(dir *fsys.Dir, names []string, beside bool) (found, sidecars neighbours, err error) {
	err = dir.Each(func(entry []byte, _ uint64, _ fsys.Kind) bool {
		for _, name := range names {
			if isStem(string(entry), name) {
				found = append(found, string(entry))
				break
			}
		}
		if beside && hasExtension(string(entry)) {
			sidecars = append(sidecars, string(entry))
		}
		return true
	})
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil, nil
	}
	slices.Sort(sidecars)
	return found, sidecars, err
}

// hasExtension reports whether a part of a name after a dot is the extension of manifests.
func hasExtension(name string) bool {
	_, rest, more := strings.Cut(name, ".")
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ".")
		if hash.Algorithm(part).Extension() != "" {
			return true
		}
	}
	return false
}

// contain reports whether an entry has the name, in any case.
func (n neighbours) contain(name string) bool {
	return slices.ContainsFunc(n, func(entry string) bool { return strings.EqualFold(entry, name) })
}

// isStem reports whether an entry has the name, in any case, perhaps with a dot and more after it.
func isStem(entry, name string) bool {
	return len(entry) >= len(name) && (len(entry) == len(name) || entry[len(name)] == '.') && strings.EqualFold(entry[:len(name)], name)
}

// refuseCrowd returns a *takenError if an entry takes the name of a manifest: one whose name begins
// with it and a dot, such as a signature. If folds is true, upper and lower case are equal, and an
// entry whose name differs only in case is one, too.
func (n neighbours) refuseCrowd(name string, folds bool) error {
	for _, entry := range n {
		if entry != name && isStem(entry, name) && (folds || strings.HasPrefix(entry, name)) {
			return &takenError{"there is also " + quoteName(entry)}
		}
	}
	return nil
}
