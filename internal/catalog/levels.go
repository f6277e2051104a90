package catalog

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// names are the possible names of the manifests of one run. Each level has one name for
// each hash.
type names struct {
	hashes []hash.Algorithm
	usual  string // the path of --manifest, relative to the destination; "" for the default
}

// at returns the path of the manifest of hash a at a level. Level 0 has the usual path,
// then follow sealift.sha256, sealift-2.sha256 and so on.
func (n names) at(level int, a hash.Algorithm) string {
	extension := "." + a.Extension()
	switch {
	case level == 0 && n.usual != "":
		return n.usual
	case level == 0:
		return a.FileName()
	case level == 1:
		return "sealift" + extension
	}
	return "sealift-" + strconv.Itoa(level) + extension
}

// slotAt is one of the names: for the hash in a slot, at a level.
type slotAt struct{ level, slot int }

// matches returns the names that an entry of the root has, usually none or one. Names
// are compared with Unicode case folding, because a destination may fold them.
func (n names) matches(name string) (found []slotAt) {
	for slot, a := range n.hashes {
		levels := []int{0, 1}
		if _, rest, cut := strings.Cut(name, "-"); cut {
			digits, _, _ := strings.Cut(rest, ".")
			if number, err := strconv.Atoi(digits); err == nil && number >= 2 {
				levels = append(levels, number)
			}
		}
		for _, level := range levels {
			if strings.EqualFold(name, n.at(level, a)) {
				found = append(found, slotAt{level, slot})
			}
		}
	}
	return found
}

// claim is an entry of the source that has a name of a level. That level is then taken.
type claim struct {
	slotAt
	path string // as the source spells it
	kind fsys.Kind
}

// claims finds the entries of the source's tree that take levels. It ignores filters,
// because a later run may copy a name that is excluded now.
func (n names) claims(source *fsys.Dir) ([]claim, error) {
	var found []claim
	err := source.Each(func(name []byte, _ uint64, kind fsys.Kind) bool {
		for _, at := range n.matches(string(name)) {
			found = append(found, claim{at, string(name), kind})
		}
		return true
	})
	if err == nil && strings.Contains(n.usual, "/") {
		err = folded(source, "", strings.Split(n.usual, "/"), func(path string, kind fsys.Kind) {
			found = append(found, claim{slotAt{}, path, kind})
		})
	}
	finder := fsys.NewFinder(source, 1)
	defer finder.Close()
	for i := range found {
		if found[i].kind == fsys.Unknown && err == nil { // the listing has no type
			var info fsys.Info
			if info, err = finder.Lstat(found[i].path); err == nil {
				found[i].kind = info.Kind
			}
		}
	}
	slices.SortFunc(found, func(a, b claim) int { return strings.Compare(a.path, b.path) })
	return found, err
}

// folded calls yield for the entries below dir whose paths equal parts except for case. It
// also calls yield for entries in the way: they have the name of one of the directories,
// but another type.
func folded(dir *fsys.Dir, prefix string, parts []string, yield func(path string, kind fsys.Kind)) error {
	var matches []string
	var kinds []fsys.Kind
	err := dir.Each(func(name []byte, _ uint64, kind fsys.Kind) bool {
		if strings.EqualFold(string(name), parts[0]) {
			matches, kinds = append(matches, string(name)), append(kinds, kind)
		}
		return true
	})
	if err != nil {
		return err
	}
	for i, name := range matches {
		if len(parts) == 1 {
			yield(path.Join(prefix, name), kinds[i])
			continue
		}
		next, err := dir.OpenDir(name)
		if fsys.IsSymlinkRefusal(err) { // a link or a file
			yield(path.Join(prefix, name), kinds[i])
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = folded(next, path.Join(prefix, name), parts[1:], yield)
		next.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// taken is the set of levels that claims take.
func taken(claims []claim) map[int]bool {
	levels := map[int]bool{}
	for _, c := range claims {
		levels[c.level] = true
	}
	return levels
}

// levelFor applies rule 2 and returns the level of the run's manifests. It is the last
// level after the first free one at which the destination has a manifest; otherwise it is
// the first free level.
func levelFor(taken, present map[int]bool) int {
	level := firstFree(taken)
	for at := range present {
		if !taken[at] {
			level = max(level, at)
		}
	}
	return level
}

// firstFree returns the first level that is not taken.
func firstFree(taken map[int]bool) int {
	level := 0
	for taken[level] {
		level++
	}
	return level
}

// place is a path at which the manifest of an earlier run can be.
type place struct {
	path  string
	aside bool // renamed while the run replaces files that it lists
}

// places returns the possible places of the previous manifest of the hash in a slot, the
// best place first. They are at the level of the run, then at the levels that the source
// takes, from the highest down. If the source uses a name, the manifest is the file that a
// run has moved aside there. The file with the name is a copy of the source's file.
func (n names) places(level int, claims []claim, slot int) []place {
	at := n.at(level, n.hashes[slot])
	order := []place{{at, false}, {at, true}}
	own := map[int]bool{}
	for _, c := range claims {
		own[c.level] = own[c.level] || c.slot == slot
	}
	for _, level := range slices.Backward(slices.Sorted(maps.Keys(own))) {
		at = n.at(level, n.hashes[slot])
		order = append(order, place{at, own[level]}, place{at, !own[level]})
	}
	return order
}

// highest returns the highest taken level, or -1.
func highest(taken map[int]bool) int {
	top := -1
	for level := range taken {
		top = max(top, level)
	}
	return top
}

// wasPrefix begins the name of a manifest while the run replaces files that it lists.
const wasPrefix = fsys.Reserved + "was-"

// wasName returns that name for the manifest name.
func wasName(name string) string {
	if len(wasPrefix)+len(name) > fsys.MaxName {
		set := hash.NewSet([]hash.Algorithm{hash.XXH128})
		set.Write([]byte(name))
		name = strings.ToValidUTF8(name[:fsys.MaxName/2], "") + "-" + hash.XXH128.Text(set.Digests()[0])
	}
	return wasPrefix + name
}
