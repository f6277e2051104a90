package engine

import (
	"context"
	"fmt"

	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/record"
	"github.com/seed65876f4f/sealift/internal/resume"
	"github.com/seed65876f4f/sealift/internal/walk"
)

// mode is the kind of a run. There are three: the copy of a tree or file (treeCopy), the task of
// a plan (task), and the merge of a plan (merging). The methods and the rules have
// everything that differs between the three, in the order in which a run uses it. No other code
// depends on the mode of a run. The methods for a copy are those of treeCopy, which the others embed.
type mode interface {
	// rules returns the answers that stay the same during a run.
	rules(o *Options) rules

	// begin is called when the source is open and no destination is. An error ends the run before it
	// writes anything.
	begin(ctx context.Context, r *run) error
	// openTargets opens and examines the destinations of r.targets.
	openTargets(r *run) error
	// openJournal opens the journal of a destination.
	openJournal(root *fsys.Dir, name string) (*resume.Journal, error)
	// interrupted returns which files interrupted runs have changed at a destination; nil if
	// there was no such run.
	interrupted(t *target) record.Interrupted

	// startScan begins to count the totals of the source, if they are wanted. stop ends that.
	startScan(r *run) (stop func())
	// feed passes the directories and entries of the source to the run, as package walk does.
	feed(r *run, root *walk.Dir)
	// enter is Enter of walk.Visitor, when d.State is set.
	enter(r *run, d *walk.Dir) bool
	// leave is Leave of walk.Visitor.
	leave(r *run, d *walk.Dir)
	// findAbsent reports the files that the manifests of the source list and the source lacks.
	findAbsent(r *run)

	// expected returns what the manifests of the source list for a regular file.
	expected(r *run, e *entry) (catalog.Expectation, error)
	// previous returns what earlier runs have recorded for the entry at the destination.
	previous(e *entry, p *transfer) record.Kept
	placeMode
	// mayCommit returns nil if the run may replace or remove a name at a destination.
	mayCommit(t *target) error
	// fail ends the run because of err: it cannot complete its task.
	fail(r *run, err error)
	// record is called by the collector with each event, before it is counted. If it returns
	// false, the event was reported before and is ignored.
	record(r *run, e event.Event) bool

	// replay adds the results of other runs. The results of this run are durable before the call.
	replay(r *run)
	// finish ends a run that was not stopped. Everything that it has copied to the given
	// destinations is durable.
	finish(r *run, durable []*target)
}

// placeMode is the part of a mode that concerns directories and names of a destination.
type placeMode interface {
	// recognize examines a directory of a destination that was opened, and reports whether another run
	// of this copy has made it.
	recognize(dd *destDir, info fsys.Info) (made bool, err error)
	// mayMake returns nil if the run may make a directory of a destination.
	mayMake(dd *destDir) error
	// wasLeftAlone reports whether a file is a conflict that an earlier run of this copy has reported.
	wasLeftAlone(t *target, path string) bool
}

// rules are the answers of a mode that stay the same during a run.
type rules struct {
	// completes: the run completes the destinations. It writes the manifests and markers for the
	// whole tree, and the journals are not needed after it. Otherwise it is an attempt at a part: another
	// one may continue its work, perhaps while the process of this run is still alive.
	completes bool
	// planned: the run belongs to a plan. Its mark at the destinations keeps other runs out, except
	// those of the same plan. They may have made a directory that is unfinished.
	planned bool
	// takesOver: the run makes read-only directories of the destination writable.
	takesOver bool
	// clean: no temporaries are in the directories of a destination, except those of an interrupted merge, and
	// the run makes no directories. So these are not listed.
	clean bool
	// filesFrom is the fingerprint of --files-from, if the options lack it.
	filesFrom string
}

// treeCopy is the mode of Run.
type treeCopy struct{}

func (treeCopy) rules(o *Options) rules { return rules{completes: true, takesOver: !o.DryRun} }

func (treeCopy) begin(context.Context, *run) error { return nil }

func (treeCopy) openJournal(root *fsys.Dir, name string) (*resume.Journal, error) {
	return resume.OpenJournal(root, name)
}

func (treeCopy) interrupted(t *target) record.Interrupted {
	if t.Earlier != nil && t.Earlier.Interrupted {
		return t.Earlier
	}
	return nil
}

func (treeCopy) feed(r *run, root *walk.Dir) {
	if r.route.Name != "" { // a single file: do what a walk of its directory would, without listing it
		r.Enter(root)
		root.Hold() // the worker releases it
		r.jobs <- job{Dir: root, Name: r.route.Name, Kind: fsys.Regular}
		root.Done() // the hold that Walk releases
		return
	}
	walk.Walk(r.ctx, root, r.walkOptions())
}

func (r *run) walkOptions() walk.Options {
	return walk.Options{
		Workers:       walkers(r.opts.Workers),
		Filter:        r.opts.Filter,
		Only:          r.opts.Only,
		OneFileSystem: r.opts.OneFileSystem,
		LeftOut:       &r.leftOut,
		SkipReserved:  func(d *walk.Dir, name string) { r.skipReserved(d.Join(name)) },
	}
}

func (treeCopy) expected(r *run, e *entry) (catalog.Expectation, error) {
	return r.manifests.Expect(e.Path)
}

func (treeCopy) previous(e *entry, p *transfer) record.Kept {
	return p.target.records.Kept(e.manifestPath(p))
}

func (treeCopy) recognize(*destDir, fsys.Info) (made bool, err error) { return false, nil }

func (treeCopy) mayMake(*destDir) error { return nil }

func (treeCopy) wasLeftAlone(*target, string) bool { return false }

func (treeCopy) mayCommit(*target) error { return nil }

func (treeCopy) fail(r *run, err error) { r.cancel(err) }

func (treeCopy) record(*run, event.Event) bool { return true }

func (treeCopy) replay(*run) {}

// finish warns of an empty source, which may be the mount point of a card that is not mounted.
func (treeCopy) finish(r *run, _ []*target) {
	if !r.found.Load() && r.route.Name == "" && r.opts.Filter == nil && r.opts.Only == nil && r.collector.summary.Errors == 0 {
		r.report(event.Event{Kind: event.Warning, Err: fmt.Errorf("the source %s is empty; is it mounted?", quoteName(r.opts.Source))})
	}
}

// checkCommit returns nil if the run may replace or remove a name at a destination. The file that
// replaces it has a temporary name already. The caller must do so immediately. Otherwise, checkCommit
// ends the run and returns dest.ErrReported.
func (r *run) checkCommit(t *target) error {
	if err := r.mode.mayCommit(t); err != nil {
		r.mode.fail(r, err)
		return dest.ErrReported
	}
	return nil
}
