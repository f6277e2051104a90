package compare

import (
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
)

// withoutManifests returns the trees in which the entry is not a manifest written by Sealift.
func (w *worker) withoutManifests(j *job, have []int) []int {
	for _, a := range hash.Algorithms() {
		is, file := isManifestName(j.name, a)
		if !is {
			continue
		}
		return slices.DeleteFunc(slices.Clone(have), func(tree int) bool {
			if j.kinds[tree] != fsys.Regular {
				return false
			}
			dir, err := j.dir.handles[tree].Acquire()
			if err != nil {
				return false
			}
			defer j.dir.handles[tree].Release()
			return isOwnManifest(dir, j.name, file, a)
		})
	}
	return have
}

// withoutHistories sets kinds to Unknown for the trees in which the directory, which A lacks, is an
// ASC MHL history. It reports whether no tree is left.
func withoutHistories(d *folder, name string, kinds []fsys.Kind) bool {
	if name != mhl.Folder {
		return false
	}
	left := false
	for i, kind := range kinds {
		switch {
		case kind == fsys.Unknown:
		case mhl.HoldsHistory(d.handles[i]):
			kinds[i] = fsys.Unknown
		default:
			left = true
		}
	}
	return !left
}

// withoutReserved sets kinds to Unknown for the trees in which the entry is one that no copy gets. It
// reports whether no tree is left.
func (m *merge) withoutReserved(d *folder, name string, kinds []fsys.Kind) bool {
	left := false
	for i, kind := range kinds {
		if kind != fsys.Unknown && incomplete.IsReserved(name, d.parent == nil, kind) {
			kinds[i] = fsys.Unknown
		}
		left = left || kinds[i] != fsys.Unknown
	}
	return !left
}

// isTreeManifest reports whether Sealift uses the name for a manifest of a tree.
func isTreeManifest(name string) bool {
	return slices.ContainsFunc(hash.Algorithms(), func(a hash.Algorithm) bool {
		is, file := isManifestName(name, a)
		return is && file == ""
	})
}

// isManifestName reports whether Sealift uses the name for a manifest of a hash; at most one
// hash has it. It may be the name for a tree, or NAME.sha256 beside the file NAME. file is NAME then.
func isManifestName(name string, a hash.Algorithm) (is bool, file string) {
	if slices.Contains(a.FileNames(), name) {
		return true, ""
	}
	stem, is := strings.CutSuffix(name, "."+a.Extension())
	return is, stem
}

// isOwnManifest reports whether a file has exactly the form that Sealift writes. A manifest
// of one file lists only that file.
func isOwnManifest(dir *fsys.Dir, name, file string, a hash.Algorithm) bool {
	f, info, err := dir.OpenRegular(name)
	if err != nil {
		return false
	}
	defer f.Close()
	index, err := manifest.BuildExactIndex(fsys.ReaderAt{File: f}, info.Size, a)
	if err != nil || index.Len() == 0 {
		return false
	}
	return file == "" || index.Len() == 1 && index.MayList(file)
}
