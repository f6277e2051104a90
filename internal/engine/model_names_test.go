//go:build linux

package engine_test

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// A command is one run of copy over the places of a snapshot.
type command struct {
	Hashes         []hash.Algorithm
	Policy         engine.Policy
	Manifest       string // "" for the usual name; a path in each destination; outsideManifest
	Places         int    // destinations: the first so many places
	Single         string // the file of the single directory that is copied; "" for the source tree
	As             string // its name at the destination; "" to copy it into the directory
	Exclude        string // a name that the filters leave out wherever it is; "" for none
	SourceManifest engine.SourceManifestMode
	Workers        int
	Sync           engine.SyncMode
	Verify         engine.VerifyMode
}

// outsideManifest is the value of --manifest that names outsideName beside each place.
const outsideManifest = "../" + outsideName

// inside reports whether the manifests are in the destinations' trees.
func (c command) inside() bool { return c.Manifest != outsideManifest }

// name is what the single file is called at the destination.
func (c command) name() string {
	if c.As != "" {
		return c.As
	}
	return c.Single
}

// excluded reports whether the filters leave a path of the source out.
func (c command) excluded(p string) bool {
	return c.Exclude != "" && slices.Contains(strings.Split(p, "/"), c.Exclude)
}

// maxLevel is above all levels that the histories use.
const maxLevel = 9

// noLevel is no level of names.
const noLevel = -1

// levelName is the name that a level has for the manifest of a hash.
func (c command) levelName(level int, a hash.Algorithm) string {
	switch {
	case level == 0 && c.Manifest != "":
		return c.Manifest
	case level == 0:
		return strings.ToUpper(string(a)) + "SUMS"
	case level == 1:
		return "sealift." + string(a)
	}
	return fmt.Sprintf("sealift-%d.%s", level, a)
}

// levelNames are the names of a level for all hashes of the run.
func (c command) levelNames(level int) (names []string) {
	for _, a := range c.Hashes {
		names = append(names, c.levelName(level, a))
	}
	return names
}

// entriesAt lists the entries of the source, of any kind, whose path equals a level's name for a
// hash under Unicode case folding.
func (c command) entriesAt(source tree, level int, a hash.Algorithm) (found []string) {
	for _, p := range source.paths() {
		if strings.EqualFold(p, c.levelName(level, a)) {
			found = append(found, p)
		}
	}
	return found
}

// taken reports whether the source has an entry with a name of the level.
func (c command) taken(source tree, level int) bool {
	return slices.ContainsFunc(c.Hashes, func(a hash.Algorithm) bool { return len(c.entriesAt(source, level, a)) > 0 })
}

// levels are what rule 2 says about the names of a run at one destination.
type levels struct {
	taken   []int // ascending
	chosen  int   // where the run's manifests are
	highest int   // of taken; noLevel if there is none
}

func (c command) levels(source, dest tree) levels {
	l := levels{chosen: noLevel, highest: noLevel}
	for level := range maxLevel {
		switch {
		case c.taken(source, level):
			l.taken = append(l.taken, level)
			l.highest = level
		case l.chosen == noLevel, c.hasOwn(dest, level):
			l.chosen = level
		}
	}
	return l
}

// hasOwn reports whether the destination has a manifest of Sealift's form at a level,
// or one that an interrupted run has moved aside.
func (c command) hasOwn(dest tree, level int) bool {
	return slices.ContainsFunc(c.Hashes, func(a hash.Algorithm) bool {
		name := c.levelName(level, a)
		return isOwnForm(a, dest[name]) || dest[asideName(name)].kind == file
	})
}

// asideName is where a previous manifest is while its successor is not complete.
func asideName(p string) string { return path.Join(path.Dir(p), reserved+"was-"+path.Base(p)) }

// recognized reports which hash a file in the root of a source lists by its name.
// It knows the names that the histories use.
func recognized(p string) (hash.Algorithm, bool) {
	p = strings.ToLower(p)
	for _, a := range []hash.Algorithm{hash.SHA256, hash.MD5} {
		if p == string(a)+"sums" || strings.HasSuffix(p, "."+string(a)) && !strings.Contains(p, "/") {
			return a, true
		}
	}
	return "", false
}

// An expectation has the lines of the source's manifests for the hashes of a run.
type expectation struct {
	digests   map[hash.Algorithm]map[string][]string // by path
	malformed bool                                   // a manifest that lists something has other lines too
	doubtful  map[string]bool                        // paths listed by a file that the contract neither requires nor forbids to check
}

// expectations reads the manifests of the source that the run checks.
func (c command) expectations(source tree) expectation {
	e := expectation{digests: map[hash.Algorithm]map[string][]string{}, doubtful: map[string]bool{}}
	if c.SourceManifest == engine.SourceManifestIgnore {
		return e
	}
	for _, a := range c.Hashes {
		e.digests[a] = map[string][]string{}
		agreed := map[string]bool{} // by manifests that may be checked or not
		for _, name := range source.paths() {
			of, ok := recognized(name)
			named := c.Manifest != "" && strings.EqualFold(name, c.Manifest) // as the run's own would be
			if !source.isFile(name) || (!ok || of != a) && !named {
				continue
			}
			l := parseAny(a, source[name].data)
			if len(l.digests) == 0 {
				continue
			}
			open := named && (!ok || of != a) || c.excluded(name)
			e.malformed = e.malformed || l.malformed > 0
			base := strings.TrimSuffix(name, path.Ext(name))
			for p, digests := range l.digests {
				switch beside := base != name && source.isFile(base) && p != base; { // what a manifest of one file lists of others
				case p == name: // nothing lists its own digest
				case (open || beside) && source.isFile(p) && !slices.ContainsFunc(digests, func(d string) bool { return d != digestOf(a, source[p].data) }):
					agreed[p] = true
				case (open || beside) && !source.isFile(p) && c.SourceManifest != engine.SourceManifestStrict:
				case open || beside:
					e.doubtful[p] = true
				default:
					e.digests[a][p] = append(e.digests[a][p], digests...)
				}
			}
		}
		for p := range agreed { // if the run checks that file, a line that differs from other manifests causes a comparison
			if !e.allows(a, p, digestOf(a, source[p].data)) {
				e.doubtful[p] = true
			}
		}
	}
	return e
}

// allows reports whether the source's manifests list this digest for p, or nothing.
func (e expectation) allows(a hash.Algorithm, p, digest string) bool {
	return !slices.ContainsFunc(e.digests[a][p], func(d string) bool { return d != digest })
}

// absent returns the paths that the source's manifests list and the filters include, if the source
// has no regular file there. The result unsure is true if one of them is a symbolic link.
func (e expectation) absent(c command, source tree) (paths []string, unsure bool) {
	found := tree{}
	for _, listed := range e.digests {
		for p := range listed {
			if c.excluded(p) || source.isFile(p) {
				continue
			}
			found[p] = node{}
			unsure = unsure || source[p].kind == symlink
		}
	}
	return found.paths(), unsure
}
