package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/lookup"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// This file checks that a directory with bagit.txt is a valid bag (RFC 8493). The lines of
// its manifests are checked as in other trees.
//
//	openBag    before the lines: bagit.txt, bag-info.txt, and which manifests there are
//	note       with each line: where it leads, and that it is listed
//	checkBag   after the lines: the files of the payload, the lines that are repeated,
//	           Payload-Oxum, fetch.txt

// bagCheck is the state of the check of a bag. It needs 8 bytes of memory for each line.
type bagCheck struct {
	declared bag.Declared // content of bagit.txt; zero if that is not valid
	info     bag.Info
	lists    []*bagList
}

// bagList is one manifest of a bag.
type bagList struct {
	from   *treeManifest
	name   string // name of the manifest
	tag    bool   // true for a tag manifest
	listed lookup.Set
}

// openBag decodes the manifests if the tree is a bag. If the bag is checked completely, it also
// reads the tag files and notes errors in them.
func (t *tree) openBag(complete bool) error {
	if !complete && !slices.ContainsFunc(t.manifests, (*treeManifest).isBagIt) {
		return nil
	}
	shown := quote.Name(filepath.Join(t.given, bag.DeclarationName))
	declared, err := bag.Declared{}, errors.New("it is not a regular file")
	f, _, openErr := t.root.OpenRegular(bag.DeclarationName)
	other := (*fsys.KindError)(nil)
	switch {
	case openErr == nil:
		declared, err = bag.ReadDeclaration(reader(f))
		f.Close()
	case errors.Is(openErr, fs.ErrNotExist):
		return nil
	case !errors.As(openErr, &other) && !fsys.IsSymlinkRefusal(openErr):
		return failure.Refuse("%s: %s", shown, openErr)
	}
	if _, unsupported := errors.AsType[*bag.UnsupportedError](err); unsupported {
		return failure.Refuse("%s: %s", shown, err)
	}
	for _, s := range t.manifests {
		if s.isBagIt() {
			if err := s.decode(declared.Encoding); err != nil {
				return err
			}
		}
	}
	if !complete {
		return nil
	}
	t.bag = &bagCheck{}
	if err != nil {
		t.invalid(bag.DeclarationName, err)
	} else {
		t.bag.declared = declared
	}
	if err := t.readInfo(); err != nil {
		t.invalid(t.bag.declared.InfoName(), err)
	}
	return t.openBagLists()
}

func (s *treeManifest) isBagIt() bool { return s.format == manifest.BagIt }

// decode replaces the content of the manifest by its text in UTF-8. A manifest that is not in
// the encoding is invalid, and none of its lines is checked.
func (s *treeManifest) decode(e bag.Encoding) error {
	text, size, err := e.Decode(s.in, s.size)
	switch {
	case errors.Is(err, extsort.ErrTemporary):
		return refused(s.shown, err)
	case err != nil:
		s.tree.invalid(filepath.Base(s.shown), err)
		s.tree.untrusted = append(s.tree.untrusted, filepath.Base(s.shown))
		s.size = 0
	case text != nil:
		s.in, s.size, s.temp = text, size, text
	}
	return nil
}

// openBagLists finds the manifests of the bag, and those of unknown algorithms.
func (t *tree) openBagLists() error {
	payload := false
	for _, s := range t.manifests {
		if !s.isBagIt() {
			continue
		}
		l := &bagList{from: s, name: filepath.Base(s.shown)}
		l.tag = bag.IsTagManifest(l.name)
		payload = payload || !l.tag
		t.bag.lists = append(t.bag.lists, l)
	}
	unknown := "" // name of a payload manifest with an unknown algorithm
	err := t.root.Each(func(name []byte, _ uint64, _ fsys.Kind) bool {
		s := string(name)
		if _, _, known := manifest.Recognize(s); !known && (bag.IsPayloadManifest(s) || bag.IsTagManifest(s)) {
			t.notes = append(t.notes, note{Warning, s, errors.New("it is not checked, because its algorithm is not known")})
			if bag.IsPayloadManifest(s) {
				unknown = s
			}
		}
		return true
	})
	switch {
	case err != nil:
		return failure.Refuse("%s: %s", quote.Name(t.given), err)
	case !payload && unknown != "":
		return failure.Refuse("%s: its algorithm is not supported, and the bag has no other payload manifest", quote.Name(filepath.Join(t.given, unknown)))
	case !payload:
		t.invalid("", errors.New("the bag has no payload manifest"))
	}
	return t.findUnfinishedBag()
}

func reader(f *fsys.File) io.Reader { return f.Reader(1 << 62) }

// readInfo reads bag-info.txt, which may be absent.
func (t *tree) readInfo() error {
	f, _, err := t.root.OpenRegular(t.bag.declared.InfoName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		t.bag.info, err = bag.ReadInfo(t.bag.declared.Encoding.NewReader(reader(f)))
		f.Close()
	}
	return err
}

func (t *tree) invalid(name string, err error) {
	t.notes = append(t.notes, note{Invalid, name, err})
}

// findUnfinishedBag adds the journal of an unfinished bag, which is in the payload
// directory.
func (t *tree) findUnfinishedBag() error {
	dir, err := t.root.OpenDir(bag.PayloadName)
	if err != nil {
		return nil //nolint:nilerr // without a payload there is no journal; checkBag reports the rest
	}
	defer dir.Close()
	signs, err := incomplete.Find(dir)
	if err != nil {
		return failure.Refuse("%s: %s", quote.Name(filepath.Join(t.given, bag.PayloadName)), err)
	}
	for _, s := range signs {
		if s.Journal {
			s.Name = path.Join(bag.PayloadName, s.Name)
			t.signs = append(t.signs, s)
		}
	}
	return nil
}

// note records the lines of a job, and refuses lines that a manifest of a bag must not
// have.
func (b *bagCheck) note(j *job) {
	for _, p := range j.parts {
		i := slices.IndexFunc(b.lists, func(l *bagList) bool { return l.from == p.from })
		if i < 0 || len(p.digests) == 0 { // the line is of another manifest, or there is none
			continue
		}
		l, name := b.lists[i], j.meant
		if name == "" {
			name = j.path
		}
		name = path.Clean(name)
		l.listed.Add(name)
		switch inPayload := bag.InPayload(name); {
		case p.verdict == Unreadable:
		case !l.tag && !inPayload:
			p.verdict, p.err = Invalid, fmt.Errorf("%s must not list it, because it is not below %s/", l.name, bag.PayloadName)
		case l.tag && inPayload:
			p.verdict, p.err = Invalid, fmt.Errorf("%s must not list it, because it is in the payload", l.name)
		case l.tag && bag.IsTagManifest(name):
			p.verdict, p.err = Invalid, fmt.Errorf("%s must not list it, because it is a tag manifest", l.name)
		}
	}
}

// checkBag reports errors of the bag that do not concern single lines.
func (r *run) checkBag(ctx context.Context, t *tree) {
	b := t.bag
	if b.declared == (bag.Declared{}) { // openBag has reported it
		return
	}
	for _, l := range b.lists {
		if err := r.findRepeated(t, l); err != nil {
			r.addTo(t, Failure, l.name, err)
		}
		for _, other := range b.lists {
			if l.tag && !other.tag && b.declared.IsFinal() && !l.listed.Has(other.name) {
				r.addTo(t, Invalid, other.name, fmt.Errorf("%s does not list it", l.name))
			}
		}
	}
	have, ok := r.walkPayload(ctx, t)
	if want := b.info.Oxum; ok && want != nil && *want != have {
		r.addTo(t, Invalid, b.declared.InfoName(), fmt.Errorf("%s is %s, and the payload has %s (bytes.files)", bag.LabelOxum, want, have))
	}
	if err := r.checkFetch(t); err != nil {
		r.addTo(t, Invalid, bag.FetchName, err)
	}
}

// findRepeated reports the paths that a manifest lists more than once, which only version 1.0
// forbids.
func (r *run) findRepeated(t *tree, l *bagList) error {
	repeated := l.listed.Repeated()
	if repeated.Len() == 0 {
		return nil
	}
	verdict := Warning
	if t.bag.declared.IsFinal() {
		verdict = Invalid
	}
	reported := map[string]bool{}
	for lines := l.from.read(); len(reported) < maxReported; {
		entry, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		names := []string{entry.path}
		if entry.literal != "" {
			names = manifest.BagItPaths(entry.literal)
		}
		for _, name := range names {
			if name = path.Clean(name); repeated.Has(name) && !reported[name] {
				reported[name] = true
				r.addTo(t, verdict, name, fmt.Errorf("%s lists it more than once", l.name))
				break
			}
		}
	}
	return nil
}

// maxReported limits how many repeated paths of one manifest are reported.
const maxReported = 1000

// checkFetch reports entries of fetch.txt that no payload manifest lists. Listed entries
// that are absent are missing, like any listed file.
func (r *run) checkFetch(t *tree) error {
	f, _, err := t.root.OpenRegular(bag.FetchName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return bag.ReadFetch(t.bag.declared.Encoding.NewReader(reader(f)), func(name string) error {
		paths := manifest.BagItPaths(name)
		for i := range paths {
			paths[i] = path.Clean(paths[i])
		}
		for _, l := range t.bag.lists {
			if !l.tag && slices.ContainsFunc(paths, l.listed.Has) {
				return nil
			}
		}
		r.addTo(t, Invalid, paths[0], fmt.Errorf("%s lists it, and no payload manifest does", bag.FetchName))
		return nil
	})
}

// walkPayload reports the files of the payload that the manifests do not list, and counts
// all of them with their bytes. ok is false if part of the payload cannot be read;
// walkPayload has reported that.
func (r *run) walkPayload(ctx context.Context, t *tree) (sum bag.Oxum, ok bool) {
	v := &payloadVisitor{run: r, tree: t, find: fsys.NewFinder(t.root, 2), ok: true}
	defer v.find.Close()
	if !r.walk(ctx, t, v, walk.Options{}) {
		return sum, false
	}
	if !v.met && v.ok && ctx.Err() == nil {
		r.addTo(t, Invalid, bag.PayloadName, errors.New("the bag has no such directory"))
	}
	return v.sum, v.ok && ctx.Err() == nil
}

// payloadVisitor visits the payload. One goroutine calls it.
type payloadVisitor struct {
	run  *run
	tree *tree
	find *fsys.Finder
	sum  bag.Oxum
	met  bool // true if the payload directory exists
	ok   bool
}

func (v *payloadVisitor) Enter(d *walk.Dir) bool {
	if isPayload(d) {
		v.met = v.met || d.Name == bag.PayloadName
		return d.Name == bag.PayloadName
	}
	return d.Parent == nil || !incomplete.IsReserved(d.Name, isPayload(d.Parent), fsys.Directory)
}

func (v *payloadVisitor) Leave(*walk.Dir) {}

// isPayload reports whether d is the payload directory of the bag, the root of the copied tree.
func isPayload(d *walk.Dir) bool { return d.Parent != nil && d.Parent.Parent == nil }

func (v *payloadVisitor) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	file := d.Join(name)
	if !bag.InPayload(file) || incomplete.IsReserved(name, isPayload(d), kind) {
		return
	}
	if unlisted := v.tree.bag.unlisted(file); unlisted != "" {
		v.run.addTo(v.tree, Invalid, file, errors.New(unlisted))
	}
	info, err := v.find.Lstat(file)
	if err == nil && info.Kind == fsys.Symlink { // the link counts as the file that it leads to
		var f *fsys.File
		if f, info, err = v.find.Open(file); err == nil {
			f.Close()
		}
	}
	if err != nil || info.Kind != fsys.Regular {
		return // the check of its line, if any, has reported it
	}
	v.sum.Files++
	v.sum.Bytes += info.Size
}

func (v *payloadVisitor) Failed(d *walk.Dir, name string, err error) {
	file := d.Join(name)
	if d.Parent == nil && name != bag.PayloadName { // the directory is not part of the payload
		return
	}
	v.ok = false
	v.run.addTo(v.tree, Failure, file, scanError(err))
}

// unlisted describes which manifests do not list a file of the payload. It returns "" if
// all list it.
func (b *bagCheck) unlisted(file string) string {
	listed, lacks := false, ""
	for _, l := range b.lists {
		switch {
		case l.tag:
		case l.listed.Has(file):
			listed = true
		case lacks == "":
			lacks = l.name
		}
	}
	switch {
	case !listed:
		return "it is in the payload, and no payload manifest lists it"
	case lacks != "" && b.declared.IsFinal():
		return lacks + " does not list it"
	}
	return ""
}
