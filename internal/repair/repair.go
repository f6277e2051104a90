// Package repair replaces damaged files of a directory by good ones of other directories.
//
//	verify ──damaged files with all their lines──▶ workers: read OTHER, hash, write, compare, rename ──▶ one reporter
//
// A file is replaced only by bytes that match every line about it. Manifests and trees are hostile
// input: repair reaches every entry through the descriptor of its directory and follows no
// symbolic link below the directories that the user named. There is no journal: the check finds what a
// stopped repair has left to do.
package repair

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/jobs"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/route"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// Options say which directory to repair, and how.
type Options struct {
	Dir  string   // the directory to repair
	From []string // directories with good copies, in the order in which they are read; at least one

	Discard bool   // keep no replaced file
	Backup  string // directory in which replaced files are kept, relative to Dir; "" to keep each beside its name
	DryRun  bool   // read everything, and change nothing

	// Options are those of the check. Run sets Paths, Begin and Damaged. Report receives what the check finds that
	// is not about one file, and Each every file that was checked.
	verify.Options

	// File receives each damaged file, in path order, after the calls of Each. Warn receives kinds of metadata that
	// Dir cannot keep. Calls of Report and File do not overlap; those of Warn may.
	File func(*File)
	Warn func(error)
}

// Counts has the counts of a run, with the names of the JSON output.
type Counts struct {
	Files int64 `json:"files"` // The files that were read to the end in the check.
	// The files that were missing or did not match. It is the length of damaged_files unless the command
	// was stopped or a manifest cannot be relied on.
	Damaged  int64 `json:"damaged"`
	Repaired int64 `json:"repaired"` // The part of damaged that is right now; with dry_run, that would be.
	Left     int64 `json:"left"`     // The part of damaged that no directory has a good copy of.
	Failed   int64 `json:"failed"`   // The part of damaged whose repair failed.
	LeftOut  int64 `json:"left_out"` // The lines of manifests that the filters leave out.
	Warnings int64 `json:"warnings"` // The warnings of the check.
}

// Summary has the results of a run.
type Summary struct {
	Counts
	Bytes     int64 // size of the files that were repaired
	Elapsed   time.Duration
	Manifests []verify.ManifestSummary
	Cached    int64    // the part of Files that was perhaps read from memory and not from the device
	Untrusted []string // manifests that do not match a line about them: nothing was replaced
	Archive   string   // what Dir is: "bag", "history" or ""
}

// Run checks and repairs the directory. The error is a *failure.RefusedError if nothing can be
// repaired, and the cause of ctx's end if the run was stopped; then the summary is not nil. When Run
// returns, all its goroutines have ended.
func Run(ctx context.Context, o *Options, c *counters.Set) (*Summary, error) {
	begun := time.Now()
	r := &run{opts: o, counters: c, summary: &Summary{}}
	defer r.close()
	if err := r.openOthers(); err != nil {
		return nil, err
	}
	o.Paths, o.Begin, o.Damaged = []string{o.Dir}, r.begin, r.repair
	checked, err := verify.Run(ctx, &o.Options, c)
	if failed := errors.Join(r.unlock(), r.restoreRoot()); failed != nil {
		err = errors.Join(err, failed)
	}
	if checked == nil {
		return nil, err
	}
	s := r.summary
	s.Files, s.LeftOut, s.Warnings = checked.Files, checked.LeftOut, checked.Warnings
	s.Manifests, s.Cached, s.Elapsed = checked.Manifests, checked.Cached, time.Since(begun)
	return s, err
}

// run is one execution of Run.
type run struct {
	opts     *Options
	counters *counters.Set
	summary  *Summary
	others   []*fsys.Dir // the directories of Options.From
	root     *fsys.Dir   // the directory to repair
	rootInfo fsys.Info   // root before the run
	journal  *resume.Journal
	// isUnfinished: the journal belongs to a copy that is unfinished.
	isUnfinished bool
	backup       *fsys.Dir // the directory of Options.Backup; nil if there is none
	systems      dest.FileSystems
	rules        metadata.Rules
	reader       metadata.Reader
	pipe         *pipe.Pipe
	dirs         directories
}

func (r *run) close() {
	r.systems.Close()
	for _, d := range append(r.others, r.backup, r.root) {
		if d != nil {
			d.Close()
		}
	}
}

// openOthers opens the directories of Options.From, and refuses those that cannot help.
func (r *run) openOthers() error {
	o := r.opts
	dir, err := os.Stat(o.Dir)
	if err == nil && !dir.IsDir() {
		return failure.Refuse("%s is not a directory; to check it against one manifest, use --manifest", quote.Name(o.Dir))
	}
	if err := fsys.CheckLinks(o.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return failure.Refuse("%s: %s", quote.Name(o.Dir), route.Reason(err))
	}
	for _, from := range o.From {
		root, openErr := o.FS.OpenRoot(from)
		if openErr != nil {
			return failure.Refuse("--from %s cannot be opened: %s", quote.Name(from), route.Reason(openErr))
		}
		r.others = append(r.others, root)
		switch other, statErr := os.Stat(from); {
		case err != nil || statErr != nil: // verify reports that Dir does not exist
		case os.SameFile(dir, other):
			return failure.Refuse("%s and --from %s are the same directory", quote.Name(o.Dir), quote.Name(from))
		case route.IsBelow(o.Dir, from):
			return failure.Refuse("%s is inside --from %s", quote.Name(o.Dir), quote.Name(from))
		case route.IsBelow(from, o.Dir):
			return failure.Refuse("--from %s is inside %s", quote.Name(from), quote.Name(o.Dir))
		}
	}
	return nil
}

// begin locks the directory, which verify has opened, and prepares it for changes.
func (r *run) begin(root *fsys.Dir) error {
	o := r.opts
	var err error
	if r.root, err = root.OpenDir("."); err != nil { // verify closes its own before the lock ends
		return failure.InStep("it cannot be opened", err)
	}
	if r.rootInfo, err = root.Stat(); err != nil {
		return failure.InStep("it cannot be examined", err)
	}
	r.summary.Archive = archiveIn(root)
	if r.summary.Archive != "" && !o.Discard && r.keepsInside() {
		return failure.Refuse("%s is a %s, which a kept file would break; use --discard, or --backup-dir with a directory outside", quote.Name(o.Dir), r.summary.Archive)
	}
	r.rules = metadata.Rules{Preserve: metadata.PreserveAll, Privileged: fsys.Privileged()}
	r.reader = metadata.Reader{Rules: r.rules, Warn: func(path string, err error) { r.warn(fmt.Errorf("%s: %w", quote.Name(path), err)) }}
	r.dirs = directories{seen: map[fsys.ID]fsys.Info{r.rootInfo.ID: r.rootInfo}, made: map[string]bool{}}
	if o.DryRun {
		return nil
	}
	if err := r.lock(); err != nil {
		return err
	}
	settings := dest.Settings{
		Rules: &r.rules, Sync: dest.SyncFile, SharesSyncErrors: (*fsys.Dir).SharesSyncErrors,
		Report: func(kind string, err error) { r.warn(err) },
	}
	if err := r.systems.Open(settings, r.root, r.rootInfo, nil); err != nil {
		return failure.Refuse("%s: no file can be made in it: %s", quote.Name(o.Dir), route.Reason(err))
	}
	return r.openBackup()
}

// lock locks the directory against copies into it and other repairs.
func (r *run) lock() (err error) {
	given := quote.Name(r.opts.Dir)
	signs, err := incomplete.Find(r.root)
	if err != nil {
		return failure.Refuse("%s: %s", given, route.Reason(err))
	}
	r.isUnfinished = slices.ContainsFunc(signs, func(s incomplete.Sign) bool { return s.Journal })
	r.journal, err = resume.OpenJournal(r.root, resume.JournalName(""))
	switch {
	case errors.Is(err, fsys.ErrLocked):
		return failure.Refuse("another sealift is at work in %s", given)
	case err != nil:
		return failure.Refuse("%s cannot be repaired: %s", given, route.Reason(err))
	}
	return nil
}

// unlock removes the lock. The rest of a journal belongs to an unfinished copy.
func (r *run) unlock() error {
	if r.journal == nil {
		return nil
	}
	defer r.journal.Close()
	if r.isUnfinished {
		return nil
	}
	return r.journal.Remove()
}

// restoreRoot gives the directory the times that it had before the run.
func (r *run) restoreRoot() error {
	if r.journal == nil {
		return nil
	}
	return fsys.IgnoreRefusal(r.root.SetTimes(r.rootInfo.Atime, r.rootInfo.Mtime, r.rootInfo.Btime))
}

// archiveIn returns what a directory is, if a file that does not belong there would break it.
func archiveIn(dir *fsys.Dir) string {
	if info, err := dir.Lstat(bag.DeclarationName); err == nil && info.Kind == fsys.Regular {
		return "bag"
	}
	if folder, err := dir.OpenDir(mhl.Folder); err == nil {
		defer folder.Close()
		if _, err := folder.Lstat(mhl.ChainName); err == nil {
			return "history"
		}
	}
	return ""
}

// keepsInside reports whether replaced files are kept in the directory to repair.
func (r *run) keepsInside() bool {
	dir, err := os.Stat(r.opts.Dir)
	if r.opts.Backup == "" || err != nil {
		return true
	}
	inside, err := route.IsInside(r.backupPath(r.opts.Backup), dir)
	return inside || err != nil
}

// backupPath returns the path of the backup directory. A relative one begins in Dir, as in a copy.
func (r *run) backupPath(given string) string {
	if filepath.IsAbs(given) {
		return given
	}
	return filepath.Join(r.opts.Dir, given)
}

// openBackup opens the backup directory, and creates it if it does not exist.
func (r *run) openBackup() error {
	if r.opts.Backup == "" || r.opts.Discard {
		return nil
	}
	path := r.backupPath(r.opts.Backup)
	refuse := func(why string) error { return failure.Refuse("--backup-dir %s %s", quote.Name(r.opts.Backup), why) }
	if absolute, err := fsys.AbsolutePath(path); err != nil {
		return refuse("cannot be used: " + route.Reason(err))
	} else if _, err := fsys.MakeDirs(absolute); err != nil {
		return refuse("cannot be made: " + route.Reason(err))
	}
	var info fsys.Info
	var err error
	if r.backup, err = r.opts.FS.OpenTrustedRoot(path); err == nil {
		info, err = r.backup.Stat()
	}
	switch {
	case err != nil:
		return refuse("cannot be opened: " + route.Reason(err))
	case info.ID == r.rootInfo.ID:
		return refuse("is the directory to repair; choose another")
	case info.ID.Dev != r.rootInfo.ID.Dev:
		return refuse("is on another file system; files are kept there by hard links")
	}
	return nil
}

func (r *run) warn(err error) {
	if r.opts.Warn != nil {
		r.opts.Warn(err)
	}
}

// repair repairs the damaged files of a check, which is verify.Options.Damaged.
func (r *run) repair(ctx context.Context, d *verify.Damage) error {
	r.summary.Damaged = d.Files
	if d.Files == 0 || len(d.Untrusted) > 0 {
		r.summary.Untrusted = d.Untrusted
		return nil
	}
	r.counters.Phase.Store(int32(counters.PhaseRepairing))
	r.counters.TotalFiles.Add(d.Files)
	workers := jobs.Workers(r.opts.Workers, 1, 4)
	r.pipe = jobs.NewPipe(workers, r.opts.BytesPerSecond, &r.counters.Bytes)
	r.pipe.KeepHoles = true
	order := jobs.NewOrder(jobs.MemoryOfResults(), func(g *group) int { return 1000 * len(g.files) }, r.report)
	var produced error
	jobs.Run(ctx, &jobs.Options[*group]{
		Devices: 1, Workers: workers, Counters: r.counters,
		Path: func(g *group) string { return g.files[0].Path },
		Produce: func(send func(int, *group)) {
			number := int64(0)
			produced = d.Each(func(names []*verify.DamagedFile) error {
				order.Wait(number)
				send(0, newGroup(number, names))
				number++
				return ctx.Err()
			})
		},
		Work: func(_ int, list iter.Seq[*group]) {
			w := &worker{run: r, ctx: ctx}
			for g := range list {
				w.do(g)
			}
		},
		Collect: func(g *group, done bool) {
			g.done = done
			order.Done(g.number, g)
		},
	})
	return errors.Join(produced, r.removeEmpty())
}

// report counts the files of a group, and reports them.
func (r *run) report(g *group) {
	for _, f := range g.files {
		if !g.done && f.Result == Untried {
			continue // the run was stopped
		}
		r.counters.Files.Add(1)
		switch f.Result {
		case Repaired:
			r.summary.Repaired++
			r.summary.Bytes += f.Size
		case Failed:
			r.summary.Failed++
		default:
			r.summary.Left++
		}
		if r.opts.File != nil {
			r.opts.File(f)
		}
	}
}
