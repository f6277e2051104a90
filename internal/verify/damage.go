package verify

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
)

// This file collects the files that do not match their lines, for Options.Damaged. The workers read
// a file once for each job, and a file may have lines in several jobs. So the manifests are read
// again afterwards, for the lines of the damaged files only.

// Damage is the result of a check for a command that repairs it. It is valid until
// Options.Damaged returns.
type Damage struct {
	Root *fsys.Dir // the directory that was checked
	// Untrusted are names of manifests that cannot be read, or that differ from a line
	// about them. All other lines may be wrong, too.
	Untrusted []string
	Files     int64 // number of damaged files

	run *run
}

// DamagedFile is a file that is missing, or that does not match all lines about it.
type DamagedFile struct {
	Path      string   // path in the directory: raw bytes, without "." and ".."
	Spellings []string // the paths that its lines can mean; a missing file may have any of them
	Verdict   Verdict  // Mismatch, Missing or Unreadable
	// Broken means that the file is Unreadable because of its device. Another file can have its
	// name then. An unreadable file that is not broken is one that the user must not read, or none at all.
	Broken bool
	Reason string    // the error of Unreadable
	Info   fsys.Info // the file when it was read; zero if it was not opened
	Lines  []Listed  // all lines about the file, also those that match
}

// Listed is what one line lists about a file.
type Listed struct {
	Digests []hash.Expected // none if the line lists only the size
	Size    int64           // size in bytes; -1 if it is not listed
}

// damage collects damaged files.
type damage struct {
	paths  lookup.Set                // cleaned paths of all of them
	linked map[fsys.ID][]DamagedFile // those that have several names
	sorter *extsort.Sorter           // record, by group and path
	err    error
}

// memoryOfDamage limits the records in memory, in bytes.
const memoryOfDamage = 8 << 20

// maxLinked limits how many damaged names are kept in memory until all names of their file are known. Each
// further one is treated as if its file had no other name.
const maxLinked = 1 << 16

func newDamage() *damage {
	return &damage{linked: map[fsys.ID][]DamagedFile{}, sorter: extsort.New(extsort.TempFile, memoryOfDamage)}
}

func (d *damage) close() { _ = d.sorter.Close() } // a temporary that is not needed any more

// isDamage reports whether a repair decides about the line.
func (p *part) isDamage() bool {
	return p.verdict == Mismatch || p.verdict == Missing || p.verdict == Unreadable
}

// note adds the file of a job if it does not match. The goroutine that collects calls it.
func (d *damage) note(j *job, convert bool) {
	i := slices.IndexFunc(j.parts, (*part).isDamage)
	if i < 0 {
		return
	}
	p := j.parts[i]
	f := DamagedFile{Path: path.Clean(j.path), Verdict: p.verdict, Broken: j.broken, Info: j.info}
	if p.err != nil {
		f.Reason = fsys.BareError(p.err).Error()
	}
	if j.meant != "" {
		f.Path = path.Clean(j.meant)
	}
	tree := p.from.tree
	tree.noteManifest(f.Path, f.Info.ID)
	for _, spelling := range append([]string{p.path}, p.otherSpellings(convert)...) {
		f.Spellings = append(f.Spellings, path.Clean(spelling))
	}
	if f.Info.Nlink > 1 && len(d.linked) < maxLinked {
		d.linked[f.Info.ID] = append(d.linked[f.Info.ID], f)
	} else {
		d.add(f.Path, record{File: &f})
	}
	d.paths.Add(f.Path)
}

// noteManifest records that a manifest of the tree does not match a line about it.
func (t *tree) noteManifest(name string, id fsys.ID) {
	if (t.ids[id] && id != fsys.ID{} || t.isSearched && isManifestName(name)) && !slices.Contains(t.untrusted, name) {
		t.untrusted = append(t.untrusted, name)
	}
}

// isManifest reports whether a repair relies on a manifest of this path.
func (o *Options) isManifest(name string) bool { return o.Manifest == "" && isManifestName(name) }

func isManifestName(name string) bool {
	_, _, known := manifest.Recognize(name)
	return known && path.Base(name) == name
}

// choose returns the function that chooses the hashes of a history to check.
func (o *Options) choose() func(*mhl.Record) []mhl.Known {
	if o.Damaged != nil {
		return mhl.All
	}
	return mhl.First
}

// record is a damaged file, or a line about one. The bytes of paths are no text, so JSON gets them as
// slices.
type record struct {
	Group, Path []byte
	Spellings   [][]byte     `json:",omitempty"`
	File        *DamagedFile `json:",omitempty"`
	Line        *Listed      `json:",omitempty"`
}

// add adds a record about a path of a group. A group has the names of one file; its name is the first
// of them.
func (d *damage) add(group string, r record) {
	if r.Group = []byte(group); r.File != nil {
		r.Path = []byte(r.File.Path)
		for _, s := range r.File.Spellings {
			r.Spellings = append(r.Spellings, []byte(s))
		}
	}
	value, err := json.Marshal(r)
	if err == nil {
		err = d.sorter.Add([]byte(sortKey(group)+sortKey(string(r.Path))), value)
	}
	d.err = errors.Join(d.err, err)
}

// sortKey ends a path so that no other path and no part of one continues it.
func sortKey(path string) string { return strings.ReplaceAll(path, "\x00", "\x00\xff") + "\x00\x01" }

// deliverDamage calls Options.Damaged.
func (r *run) deliverDamage(ctx context.Context) error {
	t, d := r.trees[0], r.damage
	for _, s := range t.manifests {
		if s.err != nil {
			t.untrusted = append(t.untrusted, filepath.Base(s.shown))
		}
	}
	if d.paths.Len() > 0 && len(t.untrusted) == 0 {
		if err := r.addLines(ctx, t); err != nil {
			return err
		}
	}
	count := d.paths.Len() - d.paths.Repeated().Len()
	return r.opts.Damaged(ctx, &Damage{Root: t.root, Untrusted: t.untrusted, Files: int64(count), run: r})
}

// addLines reads the manifests again, and adds the lines about damaged files.
func (r *run) addLines(ctx context.Context, t *tree) error {
	d := r.damage
	groups := map[string]string{} // paths of files with several names, and their groups
	for _, names := range d.linked {
		slices.SortFunc(names, func(a, b DamagedFile) int { return strings.Compare(a.Path, b.Path) })
		for i := range names {
			groups[names[i].Path] = names[0].Path
			d.add(names[0].Path, record{File: &names[i]})
		}
	}
	d.linked = nil
	for _, s := range t.manifests {
		err := s.read().each(ctx, func(x expectation) error {
			p := &part{from: s, expectation: x}
			for _, spelling := range append([]string{x.path}, p.otherSpellings(r.opts.ConvertPaths)...) {
				name := path.Clean(spelling)
				if !d.paths.Has(name) {
					continue
				}
				group := name
				if known, linked := groups[name]; linked {
					group = known
				}
				d.add(group, record{Path: []byte(name), Line: &Listed{x.digests, x.size}})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return d.err
}

// Each calls yield with the damaged files, in path order. Names of one file come together, at the place of
// the first one. Each may be called only if no manifest is untrusted.
func (d *Damage) Each(yield func(names []*DamagedFile) error) error {
	var group []byte
	var names []*DamagedFile
	lines := map[string][]Listed{}
	flush := func() error {
		all := names
		for _, f := range all {
			f.Lines = lines[f.Path]
		}
		names = nil
		clear(lines)
		if len(all) == 0 { // lines of a path that only has the same hash as a damaged one
			return nil
		}
		return yield(all)
	}
	err := d.run.damage.sorter.Each(func(_, value []byte) error {
		var r record
		if err := json.Unmarshal(value, &r); err != nil {
			return err
		}
		if string(r.Group) != string(group) {
			if err := flush(); err != nil {
				return err
			}
			group = r.Group
		}
		if r.Line != nil {
			lines[string(r.Path)] = append(lines[string(r.Path)], *r.Line)
			return nil
		}
		f := r.File
		f.Path, f.Spellings = string(r.Path), nil
		for _, s := range r.Spellings {
			f.Spellings = append(f.Spellings, string(s))
		}
		if n := len(names); n == 0 || names[n-1].Path != f.Path { // two jobs can be about one file
			names = append(names, f)
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return err
}

// readTagsAgain reads the tag files of a bag after a repair, and reports those that are still invalid.
func (r *run) readTagsAgain(t *tree) {
	invalid := slices.DeleteFunc(slices.Clone(t.notes), func(n note) bool { return n.verdict != Invalid })
	if t.bag != nil { // also a valid one may have had another Payload-Oxum
		if f, _, err := t.root.OpenRegular(bag.DeclarationName); err == nil {
			if declared, err := bag.ReadDeclaration(reader(f)); err == nil {
				t.bag.declared = declared
				invalid = slices.DeleteFunc(invalid, func(n note) bool { return n.path == bag.DeclarationName })
			}
			f.Close()
		}
		if t.readInfo() == nil {
			invalid = slices.DeleteFunc(invalid, func(n note) bool { return n.path == t.bag.declared.InfoName() })
		}
	}
	for _, n := range invalid {
		r.addTo(t, n.verdict, n.path, n.err)
	}
}
