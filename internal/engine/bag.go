package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// This file makes each destination a BagIt bag. There are two cases:
//
//   - The source is a directory. The copy goes into the payload directory of a new bag, which
//     also holds the journal. The catalog writes the tag files when the payload is complete.
//   - The source is a bag. The copy is then a bag without further work. Only bagit.txt is
//     written last, when everything else is complete and durable.
//
// A directory without bagit.txt is no bag. So no program takes an incomplete copy for a
// complete bag, even after a power cut, an interrupted run or a failed one.

// bagMode says how a run makes bags.
type bagMode uint8

const (
	bagNone bagMode = iota
	bagMake         // the source is the payload of a new bag
	bagAsIs         // the source is a bag
)

// BagOptions describe the tag files of new bags.
type BagOptions struct {
	Info  []bag.Field
	Agent string // the value of Bag-Software-Agent
}

// targetBag is the state of the bag at one destination.
type targetBag struct {
	root     *fsys.Dir // of the bag, above the payload; nil if it does not exist yet, and if the source is a bag
	sealed   bool      // the bag was complete before this run, which changes nothing in it
	leftover []string  // tag files and temporaries of an unfinished run
	warned   bool      // the user was warned that the bag is incomplete
}

// bagModeOf returns the mode that follows from the options and the source: a directory with
// bagit.txt is a bag.
func (o *Options) bagModeOf() bagMode {
	if o.Bag == nil {
		return bagNone
	}
	if _, err := os.Lstat(filepath.Join(o.Source, bag.DeclarationName)); err == nil {
		return bagAsIs
	}
	return bagMake
}

// refuseBagOptions refuses options that cannot be combined with --bag in this mode.
func (o *Options) refuseBagOptions(mode bagMode) error {
	switch {
	case mode == bagNone:
	case o.MHL != nil || o.MediaList != nil:
		return failure.Refuse("--mhl cannot be used with --bag: a bag has its own manifests")
	case o.BackupDir != "":
		return failure.Refuse("--backup-dir cannot be used with --bag: nothing in a bag is replaced, and each file in it would have to be listed")
	case mode == bagAsIs && o.part():
		return failure.Refuse("the source %s is a bag, and a part of it would be none; copy it without filters", quoteName(o.Source))
	case mode == bagAsIs && o.Manifest != "":
		return failure.Refuse("the source %s is a bag, which is copied unchanged; --manifest would add a file", quoteName(o.Source))
	case mode == bagAsIs && len(o.Bag.Info) > 0:
		return failure.Refuse("the source %s is a bag, which is copied unchanged; --bag-info would change it", quoteName(o.Source))
	case len(o.Hashes) == 0:
		return failure.Refuse("a bag needs a hash")
	case mode == bagMake && o.Manifest != "":
		return o.refuseBagManifest()
	}
	for _, a := range o.Hashes {
		if mode == bagMake && !slices.Contains(bag.Algorithms, a) {
			return failure.Refuse("a bag has no manifest of %s; use md5, sha1, sha256 or sha512", a)
		}
	}
	return nil
}

// refuseBagManifest refuses a value of --manifest that names no file in the root of the bag,
// or a file of the bag itself.
func (o *Options) refuseBagManifest() error {
	name := o.Manifest
	lower := strings.ToLower(name)
	switch {
	case len(o.Hashes) > 1:
		return failure.Refuse("--manifest names one file, but %d hashes make a manifest each", len(o.Hashes))
	case filepath.Base(name) != name || name == "." || name == "..":
		return failure.Refuse("--manifest %s: with --bag, the line manifest is in the root of the bag; give a name without a directory", quoteName(name))
	case slices.Contains([]string{bag.PayloadName, bag.DeclarationName, bag.InfoName, bag.FetchName}, lower),
		bag.IsPayloadManifest(name), bag.IsTagManifest(name), incomplete.IsReserved(name, true, fsys.Unknown):
		return failure.Refuse("--manifest %s: the bag itself uses this name", quoteName(name))
	}
	return nil
}

// recognizeBag prepares the run for a bag. With --bag, it refuses a source with entries that a
// bag cannot hold. Without --bag, it detects a source that is a bag, and adds the hashes of
// its manifests to those of the run, so that the copy validates the bag. A copy with
// filters, without hashes, with --source-manifest=ignore or with --mhl does not validate a bag.
func (r *run) recognizeBag() error {
	if r.bagMode == bagMake {
		return r.refuseUnfit()
	}
	hashes, isBag, err := r.findBag()
	if err != nil || !isBag || r.opts.MHL != nil || r.opts.part() {
		return err
	}
	r.validates = true
	r.opts.Hashes = slices.Clone(r.opts.Hashes)
	for _, a := range hashes {
		if !slices.Contains(r.opts.Hashes, a) {
			r.opts.Hashes = append(r.opts.Hashes, a)
		}
	}
	return nil
}

// findBag reports whether the source is a bag whose manifests the run uses, and which known hashes
// these have. It refuses a bag that Sealift cannot read.
func (r *run) findBag() (hashes []hash.Algorithm, isBag bool, err error) {
	if r.route.Name != "" || r.listedHashes == 0 || r.opts.SourceManifest == SourceManifestIgnore {
		return nil, false, nil
	}
	hashes, isBag, err = catalog.IsBag(r.source)
	if _, unsupported := errors.AsType[*bag.UnsupportedError](err); unsupported {
		return nil, false, failure.Refuse("the source %s is a bag: %s; --source-manifest=ignore copies it without a check", quoteName(r.opts.Source), err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, false, nil // the walk reports a source that must not be read
	}
	if err != nil {
		return nil, false, failure.Refuse("source %s: cannot check whether it is a bag: %s", quoteName(r.opts.Source), err)
	}
	return hashes, isBag, nil
}

// maxUnfit limits the names that the refusal of a source lists.
const maxUnfit = 20

// refuseUnfit walks the source and refuses it if it has entries that a bag cannot hold:
// anything but regular files and directories, and names that are not UTF-8.
func (r *run) refuseUnfit() error {
	root, _, err := r.route.OpenSource()
	if err != nil {
		return err
	}
	v := &unfitVisitor{}
	r.scan(r.ctx, root, walkers(r.opts.Workers), v, nil)
	if r.ctx.Err() != nil || v.count == 0 { // a run that was stopped copies nothing
		return nil
	}
	slices.Sort(v.found)
	list := strings.Join(v.found, ", ")
	if more := v.count - len(v.found); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return failure.Refuse("a bag holds regular files with names in UTF-8 only, so nothing was copied: %s; leave them out with --exclude", list)
}

// unfitVisitor collects the entries that a bag cannot hold.
type unfitVisitor struct {
	mu    sync.Mutex
	count int
	found []string
}

func (v *unfitVisitor) add(path, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.count++; len(v.found) < maxUnfit {
		v.found = append(v.found, quoteName(path)+" ("+why+")")
	}
}

func (v *unfitVisitor) Enter(d *walk.Dir) bool {
	if utf8.ValidString(d.Name) {
		return true
	}
	v.add(d.Path(), "not UTF-8")
	return false
}

func (v *unfitVisitor) Entry(d *walk.Dir, name string, kind fsys.Kind) {
	switch {
	case kind != fsys.Regular:
		v.add(d.Join(name), kind.String())
	case !utf8.ValidString(name):
		v.add(d.Join(name), "not UTF-8")
	}
}

func (v *unfitVisitor) Leave(*walk.Dir)                 {}
func (v *unfitVisitor) Failed(*walk.Dir, string, error) {} // the copy reports it

// openBag opens the root of the bag. The destination's root is the payload directory in it; if
// another directory has that name now, the error is fsys.ErrMoved.
func (t *target) openBag() error {
	if t.BagDir == "" || t.Root == nil {
		return nil
	}
	root, err := t.FS.OpenTrustedRoot(t.BagDir)
	if err != nil {
		return err
	}
	t.bag.root = root
	have, err := t.Root.Stat()
	if err != nil {
		return err
	}
	now, err := root.Lstat(bag.PayloadName)
	if err == nil && now.ID != have.ID {
		err = fsys.ErrMoved
	}
	return err
}

// bagRecorder returns the recorder of a bag at the destination.
func (t *target) bagRecorder(r *run) record.Recorder {
	return catalog.Bag{
		Root: t.bag.root, Sealed: t.bag.sealed, Leftover: t.bag.leftover,
		Info: r.opts.Bag.Info, Agent: r.opts.Bag.Agent, Lines: r.opts.Manifest,
	}
}

// markerRoot returns the directory for the marker of an incomplete copy. In a bag that is the
// root of the bag, because the payload has only files of the source.
func (t *target) markerRoot() *fsys.Dir {
	if t.bag.root != nil {
		return t.bag.root
	}
	return t.Root
}

// endOf says what a destination lacks.
func (r *run) endOf(t *target) record.End {
	r.collector.await()
	undone := r.collector.undone
	return record.End{
		Complete:  undone != nil && undone[t.Index].Complete() && !t.Dropped() && !t.FileSystems.Failed.Load(),
		Conflicts: r.collector.at[t.Index].conflicts,
	}
}

// heldDeclaration is bagit.txt of a source that is a bag. sealBags writes it last.
type heldDeclaration struct {
	content []byte
	meta    *metadata.Values
}

// maxHeld is the largest size of a bagit.txt that is copied, in bytes. Real ones have less
// than 100.
const maxHeld = 64 << 10

// holdDeclaration reads bagit.txt of the source into memory, and checks it against the
// manifests of the bag. It reports a mismatch if the file is not usable; bagit.txt is not
// written then.
func (r *run) holdDeclaration() {
	if r.bagMode != bagAsIs {
		return
	}
	err := func() error {
		f, info, err := r.source.OpenRegular(bag.DeclarationName)
		if err != nil {
			return err
		}
		defer f.Close()
		if info.Size > maxHeld {
			return fmt.Errorf("it is longer than %d bytes", maxHeld)
		}
		held := &heldDeclaration{content: make([]byte, info.Size), meta: &metadata.Values{Info: info}}
		if n, err := (fsys.ReaderAt{File: f}).ReadAt(held.content, 0); int64(n) < info.Size {
			return err
		}
		if err := r.metadata.Read(&f.Object, bag.DeclarationName, held.meta); err != nil {
			return err
		}
		expected, err := r.manifests.Expect(bag.DeclarationName)
		if err != nil {
			return err
		}
		set := hash.NewSet(r.opts.Hashes)
		set.Write(held.content)
		if err := expected.Invalid(); err != nil {
			return err
		}
		if !expected.Met(set.Digests()) {
			return errBroken
		}
		r.held = held
		return nil
	}()
	if err != nil {
		r.report(event.OfFile(event.Mismatch, bag.DeclarationName, "", failure.StageVerify, err))
	}
}

// isHeld reports whether the entry name of d is bagit.txt of a source that is a bag. The walk
// passes over it, because sealBags writes it.
func (r *run) isHeld(d *walk.Dir, name string) bool {
	return r.bagMode == bagAsIs && d.Parent == nil && name == bag.DeclarationName
}

// sealBags writes bagit.txt to those of the durable destinations whose copy of the bag is
// complete, and sends the results to the collector.
func (r *run) sealBags(durable []*target) {
	if r.bagMode != bagAsIs || r.held == nil {
		return
	}
	f := &result{path: bag.DeclarationName, kind: fsys.Regular, size: int64(len(r.held.content))}
	for _, t := range durable {
		switch end := r.endOf(t); {
		case t.records.Claim(f.path).Sealed != nil:
			f.targets = append(f.targets, targetResult{target: t, name: f.path, done: outUpToDate})
		case end.Complete && end.Conflicts == 0:
			if err := r.seal(t); err != nil {
				t.FailEnd(failure.StageManifest, fmt.Errorf("%s: %w", bag.DeclarationName, err))
				continue
			}
			f.targets = append(f.targets, targetResult{target: t, name: f.path, done: outCreated})
		}
	}
	if len(f.targets) > 0 {
		r.collector.messages <- message{result: f}
	}
}

// seal writes bagit.txt to one destination. Unless --sync=none was given, everything else in its
// root is durable before the file gets its name, and the name is durable when seal returns.
func (r *run) seal(t *target) error {
	p, err := t.Root.Create(false)
	if err != nil {
		return err
	}
	defer p.Abort()
	if _, err := (&fsys.Writer{File: &p.File}).Write(r.held.content); err != nil {
		return err
	}
	fresh, err := p.Stat()
	if err == nil {
		_, err = t.FileSystems.Root().Apply(&p.Object, r.held.meta, fresh, true, false)
	}
	if err == nil && r.opts.Sync != dest.SyncNone {
		if err = p.Sync(); err == nil {
			err = t.Root.Sync()
		}
	}
	if err == nil {
		err = p.Commit(bag.DeclarationName)
	}
	if err == nil && r.opts.Sync != dest.SyncNone {
		err = t.Root.Sync()
	}
	return err
}

// checkOxum compares the number of bytes and files that were read of the payload with
// Payload-Oxum in bag-info.txt of the source. It checks nothing after an error or an
// interrupted copy, because the count is too small then.
func (r *run) checkOxum() {
	if !r.validates {
		return
	}
	r.collector.await()
	want, file := r.manifests.Oxum()
	if want != nil && *want != *r.collector.payload && r.collector.summary.Errors == 0 && r.ctx.Err() == nil {
		err := fmt.Errorf("%s is %s, and the payload has %s (bytes.files)", bag.LabelOxum, want, *r.collector.payload)
		r.report(event.OfFile(event.Mismatch, file, "", failure.StageVerify, err))
	}
}

// warnEmptyDirs warns, in one message, of the empty directories that were copied into the
// payload, because the manifests of a bag do not list them.
func (r *run) warnEmptyDirs() {
	r.collector.await()
	e := &r.collector.emptyDirs
	if e.count == 0 {
		return
	}
	slices.Sort(e.shown)
	what := "1 empty directory is"
	if e.count > 1 {
		what = fmt.Sprintf("%d empty directories are", e.count)
	}
	r.report(event.Event{Kind: event.Warning, Err: fmt.Errorf("%s in the bag, and a bag does not record empty directories: %s", what, e)})
}
