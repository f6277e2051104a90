package mhl

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/manifest"
)

// Renames finds entries that the histories do not list and that have the hash of a listed file
// which does not exist any more. It returns the earlier paths of these files by their new
// paths. If several files have the same hash, it prefers one of the same base name. A
// directory counts as renamed if a file in it is. Both paths of a directory end in a slash.
func (t *Tree) Renames(entries Entries, computed []hash.Algorithm) (map[string]string, error) {
	gone := map[string][]string{} // earlier paths by a hash and its kind
	goneDirs := map[string]bool{}
	err := t.Compare(entries, computed, func(_ string, finding Finding, _ *manifest.Entry, r *Record) error {
		if finding == Missing && r.IsDir {
			goneDirs[r.Path] = true
		}
		if finding == Missing && !r.IsDir {
			for _, k := range r.Known {
				if slices.Contains(computed, k.Algorithm) {
					key := string(k.Algorithm) + string(k.Sum)
					gone[key] = append(gone[key], r.Path)
					break
				}
			}
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return nil, err
	}
	renamed, newDirs := map[string]string{}, map[string]bool{}
	err = t.Compare(entries, computed, func(file string, finding Finding, e *manifest.Entry, _ *Record) error {
		if finding != New {
			return nil
		}
		if dir, isDir := strings.CutSuffix(file, "/"); isDir {
			newDirs[dir] = true
			return nil
		}
		for i, a := range computed {
			key := string(a) + string(e.Digests[i])
			from := gone[key]
			if len(from) == 0 {
				continue
			}
			at := max(slices.IndexFunc(from, func(from string) bool { return path.Base(from) == path.Base(file) }), 0)
			renamed[file] = from[at]
			gone[key] = slices.Delete(from, at, at+1)
			break
		}
		return nil
	})
	for _, file := range slices.Sorted(maps.Keys(renamed)) {
		to, from := file, renamed[file]
		for path.Base(to) == path.Base(from) {
			to, from = path.Dir(to), path.Dir(from)
			if !newDirs[to] || !goneDirs[from] {
				break
			}
			delete(goneDirs, from) // a directory has only one new path
			renamed[to+"/"] = from
		}
	}
	return renamed, err
}
