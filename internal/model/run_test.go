//go:build linux

package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// dstNames are the destinations in the directory of a history.
var dstNames = [2]string{"dst", "dst2"}

// hashes are those of the program for the algorithms of the model.
var hashes = []hash.Algorithm{hash.SHA256, hash.MD5}

// options turns a command into the options of the program.
func (c command) options(top string) *engine.Options {
	o := &engine.Options{
		Source: filepath.Join(top, "src"), Records: engine.Records{Manifest: c.manifest}, BackupDir: c.backup, Preserve: metadata.PreserveAll,
		Verify: engine.VerifyMode(c.verify), Resources: engine.Resources{Workers: c.workers, BlockSize: blockSize, DirtyWindow: engine.DirtyWindowOff},
	}
	var err error
	if o.Policy, err = policy.All.Parse(c.policy); err != nil {
		panic(err)
	}
	if o.SourceManifest, err = engine.SourceManifestModes.Parse(c.sourceManifest); err != nil {
		panic(err)
	}
	for _, h := range c.hashes {
		o.Hashes = append(o.Hashes, hashes[h])
	}
	for i := range c.dsts {
		o.Targets = append(o.Targets, filepath.Join(top, dstNames[i]))
		if c.single != "" {
			o.Targets[i] += "/"
		}
	}
	if c.single != "" {
		o.Source = filepath.Join(o.Source, filepath.FromSlash(c.single))
	}
	if len(c.rules) > 0 {
		o.Filter = &filter.List{}
		for _, r := range c.rules {
			add := o.Filter.Exclude
			if r.include {
				add = o.Filter.Include
			}
			if err := add(r.pattern); err != nil {
				panic(err)
			}
		}
	}
	return o
}

// A report is what the program reports of a run.
type report struct {
	refused    string
	exit       int
	mismatches map[string]bool
	counts     [2]counts
	conflicts  [2]map[string]bool
	events     []string
}

// run runs a command.
func (c command) run(top string, sys *fsys.FS, dry bool) (*report, error) {
	o := c.options(top)
	o.FS, o.DryRun = sys, dry
	r := &report{mismatches: map[string]bool{}}
	for i := range c.dsts {
		r.conflicts[i] = map[string]bool{}
	}
	o.Report = func(e event.Event) {
		switch e.Kind {
		case event.Conflict:
			for i, t := range o.Targets {
				if e.Target == t {
					r.conflicts[i][e.Path] = true
				}
			}
		case event.Mismatch:
			r.mismatches[e.Path] = true
		}
		r.events = append(r.events, fmt.Sprintf("%d %s %q %s: %v", e.Kind, e.Action, e.Path, filepath.Base(e.Target), e.Err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	summary, err := engine.Run(ctx, o, &counters.Set{})
	if refused, ok := errors.AsType[*failure.RefusedError](err); ok {
		r.refused, r.exit = refused.Reason, 2
		return r, nil
	}
	if err != nil {
		return r, err
	}
	switch {
	case summary.Mismatches > 0:
		r.exit = 3
	case summary.Errors > 0:
		r.exit = 1
	case summary.Conflicts > 0:
		r.exit = 4
	}
	for i, t := range summary.Targets {
		n := t.Counts
		r.counts[i] = counts{int(n.Created), int(n.Replaced), int(n.Updated), int(n.UpToDate), int(n.Kept), len(r.conflicts[i])}
	}
	return r, nil
}

// killed runs a command and kills it at an operation: no later operation succeeds. With fault, only
// that operation fails.
func (c command) killed(top string, last int, fault bool) {
	var count atomic.Int64
	sys := faultfs.New(func(fsys.Op, string) error {
		switch n := count.Add(1); {
		case fault && n == int64(last):
			return syscall.EIO
		case !fault && n > int64(last):
			return faultfs.ErrCut
		}
		return nil
	})
	_, _ = c.run(top, sys, false) // what it reports is of no interest: it is dead
}

// compare returns the differences between what a run reports and the forecast.
func (f *forecast) compare(r *report) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.exit != f.exit() {
		add("exit code: want %d, got %d (%s)", f.exit(), r.exit, r.refused)
	}
	if f.refused || r.refused != "" {
		return list
	}
	for i := range r.counts {
		if f.counts[i] != r.counts[i] {
			add("%s: want %+v, got %+v", dstNames[i], f.counts[i], r.counts[i])
		}
		if a, b := fmt.Sprint(f.conflicts[i]), fmt.Sprint(r.conflicts[i]); a != b {
			add("%s: want conflicts %v, got %v", dstNames[i], a, b)
		}
	}
	if a, b := fmt.Sprint(f.mismatched), fmt.Sprint(r.mismatches); a != b {
		add("want mismatches %v, got %v", a, b)
	}
	return list
}

// readState reads what is on disk.
func readState(top string) (s state, journals [2]bool, err error) {
	if s.src, _, err = readTree(filepath.Join(top, "src")); err != nil {
		return s, journals, err
	}
	for i, name := range dstNames {
		at := filepath.Join(top, name)
		if _, err := os.Lstat(at); err != nil {
			s.dsts[i].tree = tree{}
			continue
		}
		s.dsts[i].exists = true
		if s.dsts[i].tree, journals[i], err = readTree(at); err != nil {
			return s, journals, err
		}
	}
	return s, journals, nil
}

// diff returns the differences of the state got from the predicted state s.
func (s state) diff(got state) (list []string) {
	prefix := func(where string, found []string) {
		for _, d := range found {
			list = append(list, where+": "+d)
		}
	}
	prefix("src", s.src.diff(got.src))
	for i, d := range s.dsts {
		if d.exists != got.dsts[i].exists {
			list = append(list, fmt.Sprintf("%s: want exists %v, got %v", dstNames[i], d.exists, got.dsts[i].exists))
		}
		prefix(dstNames[i], d.tree.diff(got.dsts[i].tree))
	}
	return list
}

func (s state) String() string {
	var b strings.Builder
	show := func(where string, t tree) {
		first := t.firstNames()
		for _, p := range t.paths() {
			fmt.Fprintf(&b, "\t%s/%q: %s", where, p, t[p])
			if first[p] != "" {
				fmt.Fprintf(&b, " = %q", first[p])
			}
			b.WriteString("\n")
		}
	}
	show("src", s.src)
	for i, d := range s.dsts {
		show(dstNames[i], d.tree)
	}
	return b.String()
}
