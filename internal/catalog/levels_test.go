package catalog

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestLevelFor is rule 2: which level the manifests of a run are at.
func TestLevelFor(t *testing.T) {
	for name, test := range map[string]struct {
		taken, present []int
		want           int
	}{
		"nothing is taken, so that it is the first":    {want: 0},
		"the first is taken, so that it is the second": {taken: []int{0}, want: 1},
		"three are taken": {taken: []int{0, 1, 2}, want: 3},
		"a gap is free":   {taken: []int{0, 2}, want: 1},
		"a later one that is taken does not matter":           {taken: []int{5}, want: 0},
		"a later one with a manifest is continued":            {present: []int{1}, want: 1},
		"the last one with a manifest is continued":           {present: []int{1, 4, 3}, want: 4},
		"one with a manifest that the source takes is not":    {taken: []int{0, 4}, present: []int{2, 4}, want: 2},
		"an earlier one with a manifest that is taken is not": {taken: []int{0}, present: []int{0}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			set := func(levels []int) map[int]bool {
				m := map[int]bool{}
				for _, level := range levels {
					m[level] = true
				}
				return m
			}
			if got := levelFor(set(test.taken), set(test.present)); got != test.want {
				t.Errorf("level %d, want %d", got, test.want)
			}
		})
	}
}

// TestTakenLevels is rule 2: which entries of a source take a level.
func TestTakenLevels(t *testing.T) {
	both := []hash.Algorithm{hash.SHA256, hash.BLAKE3}
	file := treetest.File("")
	for name, test := range map[string]struct {
		source treetest.Dir
		hashes []hash.Algorithm
		usual  string
		want   string // levels and paths
	}{
		"the usual name":                             {source: treetest.Dir{"SHA256SUMS": file}, want: "0 SHA256SUMS"},
		"the names of later levels":                  {source: treetest.Dir{"sealift.sha256": file, "sealift-12.sha256": file}, want: "1 sealift.sha256, 12 sealift-12.sha256"},
		"names in another case":                      {source: treetest.Dir{"sha256sums": file, "SeaLift-2.SHA256": file}, want: "0 sha256sums, 2 SeaLift-2.SHA256"},
		"names that Unicode folds":                   {source: treetest.Dir{"\u017fha256sums": file}, want: "0 \u017fha256sums"},
		"a directory and a link have names, too":     {source: treetest.Dir{"SHA256SUMS": treetest.Dir{}, "sealift.sha256": treetest.Symlink("x")}, want: "0 SHA256SUMS, 1 sealift.sha256"},
		"a name below the root is of no interest":    {source: treetest.Dir{"d": treetest.Dir{"SHA256SUMS": file}}},
		"a number that Sealift would not write":      {source: treetest.Dir{"sealift-1.sha256": file, "sealift-02.sha256": file, "sealift-+2.sha256": file}},
		"a hash that the run does not compute":       {source: treetest.Dir{"BLAKE3SUMS": file}},
		"each hash of the run":                       {source: treetest.Dir{"BLAKE3SUMS": file, "sealift.sha256": file}, hashes: both, want: "0 BLAKE3SUMS, 1 sealift.sha256"},
		"with --manifest its path instead":           {source: treetest.Dir{"SHA256SUMS": file, "sums": treetest.Dir{"list": file}}, usual: "sums/list", want: "0 sums/list"},
		"its path in another case":                   {source: treetest.Dir{"SUMS": treetest.Dir{"List": file}, "sums": treetest.Dir{"other": file}}, usual: "sums/list", want: "0 SUMS/List"},
		"a file in place of a directory of its path": {source: treetest.Dir{"sums": file}, usual: "sums/list", want: "0 sums"},
		"a link in place of a directory of its path": {source: treetest.Dir{"sums": treetest.Symlink("d"), "d": treetest.Dir{"list": file}}, usual: "sums/list", want: "0 sums"},
		"a path that is the name of another level":   {source: treetest.Dir{"sealift.sha256": file}, usual: "Sealift.sha256", want: "0 sealift.sha256, 1 sealift.sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, test.source, treetest.Dir{})
			n := names{hashes: test.hashes, usual: test.usual}
			if n.hashes == nil {
				n.hashes = usualHashes
			}
			claims, err := n.claims(openRoot(t, p.source))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range claims {
				got = append(got, strconv.Itoa(c.level)+" "+c.path)
			}
			slices.Sort(got)
			want := strings.Split(test.want, ", ")
			slices.Sort(want)
			if strings.Join(got, ", ") != strings.Join(want, ", ") {
				t.Errorf("taken: %q, want %q", got, want)
			}
		})
	}
}

// TestPlacesOfThePrevious is rules 2 and 8: where the lines of earlier runs are.
func TestPlacesOfThePrevious(t *testing.T) {
	n := names{hashes: []hash.Algorithm{hash.SHA256, hash.BLAKE3}}
	takes := func(level, slot int) claim {
		return claim{slotAt{level, slot}, n.at(level, n.hashes[slot]), fsys.Regular}
	}
	for name, test := range map[string]struct {
		level  int
		claims []claim
		want   string // with * for manifests that were moved aside
	}{
		"at the level of the run, before what was moved aside from there": {
			want: "SHA256SUMS SHA256SUMS*",
		},
		"at a level that the source takes now, what was moved aside comes first": {
			level: 1, claims: []claim{takes(0, 0)}, want: "sealift.sha256 sealift.sha256* SHA256SUMS* SHA256SUMS",
		},
		"if the source takes it with the name of another hash, the manifest comes first": {
			level: 1, claims: []claim{takes(0, 1)}, want: "sealift.sha256 sealift.sha256* SHA256SUMS SHA256SUMS*",
		},
		"of the levels that the source takes, the highest comes first": {
			level: 1, claims: []claim{takes(0, 0), takes(3, 0)},
			want: "sealift.sha256 sealift.sha256* sealift-3.sha256* sealift-3.sha256 SHA256SUMS* SHA256SUMS",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range n.places(test.level, test.claims, 0) {
				got = append(got, p.path+map[bool]string{true: "*"}[p.aside])
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%s, want %s", strings.Join(got, " "), test.want)
			}
		})
	}
}

// TestNamesOfManifests opens runs whose outcome depends on names.
func TestNamesOfManifests(t *testing.T) {
	list := sha("a", "one")
	for name, test := range map[string]struct {
		source, dest files
		usual, file  string
		want         string
	}{
		"the usual name":                                     {want: "SHA256SUMS"},
		"the path of --manifest":                             {usual: "sums/list", want: "sums/list"},
		"the next one if the source has it":                  {source: files{"SHA256SUMS": "x"}, want: "sealift.sha256"},
		"a number that no loop could count to":               {source: files{"SHA256SUMS": "x", "sealift-9000000000000000000.sha256": "x"}, want: "sealift.sha256"},
		"a path that is the name of another level":           {source: files{"sealift.sha256": "x"}, usual: "sealift.sha256", want: "sealift-2.sha256"},
		"a later name that is in use":                        {dest: files{"sealift-3.sha256": list}, want: "sealift-3.sha256"},
		"a later name that was in use when a run was killed": {dest: files{".sealift-was-sealift.sha256": list}, want: "sealift.sha256"},
		"a later name of a file that is no manifest":         {dest: files{"sealift.sha256": "x"}, want: "SHA256SUMS"},
		"a later name with a signature":                      {dest: files{"sealift.sha256": list, "sealift.sha256.asc": "x"}, want: "SHA256SUMS"},
		"a single file with --manifest has just that":        {source: files{"a": "one"}, dest: files{"sealift.sha256": list}, usual: "list", file: "a", want: "list"},
		"a single file has a manifest of its own":            {source: files{"a": "one"}, dest: files{"sealift.sha256": list}, file: "a", want: "a.sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, test.source.tree(), test.dest.tree())
			c, err := p.open(Options{Usual: test.usual, File: test.file})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.lists[0].path; got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestNameOfWhatIsMovedAside(t *testing.T) {
	if got := wasName("SHA256SUMS"); got != ".sealift-was-SHA256SUMS" {
		t.Error(got)
	}
	long := strings.Repeat("\u00e4", 120)
	one, two := wasName(long+"1"), wasName(long+"2")
	if one == two || len(one) > fsys.MaxName || !strings.HasPrefix(one, wasPrefix) {
		t.Errorf("%q and %q", one, two)
	}
}
