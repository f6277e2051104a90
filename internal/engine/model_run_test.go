//go:build linux

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// This file drives the engine: runs to the end, and runs that are stopped, killed or hit
// by failing operations.

// options are the engine's for a command over the snapshot below dir.
func (c command) options(dir string) *engine.Options {
	o := &engine.Options{
		Source: filepath.Join(dir, sourceDir), Hashes: c.Hashes, Policy: c.Policy, Manifest: c.Manifest,
		Sync: c.Sync, Preserve: engine.PreserveAll, Verify: c.Verify, SourceManifest: c.SourceManifest, Workers: c.Workers,
		BlockSize: engine.MinBlockSize, DirtyWindow: engine.DirtyWindowOff,
	}
	for i := range c.Places {
		target := filepath.Join(dir, placeDir(i))
		switch {
		case c.Single != "" && c.As != "":
			target = filepath.Join(target, c.As)
		case c.Single != "":
			target += "/"
		}
		o.Targets = append(o.Targets, target)
	}
	if c.Single != "" {
		o.Source = filepath.Join(dir, singleDir, c.Single)
	}
	if c.Exclude != "" {
		o.Filter = &filter.List{}
		if err := o.Filter.Exclude(c.Exclude); err != nil {
			panic(err)
		}
	}
	return o
}

// errStopped ends a run from outside.
var errStopped = errors.New("stopped by the test")

// run runs a command over the snapshot below dir, which it opens through sys. stopped says that ctx ended it.
func (c command) run(ctx context.Context, sys *fsys.FS, dir string) (o observation, stopped bool, err error) {
	options := c.options(dir)
	options.FS = sys
	options.Report = func(e engine.Event) {
		if e.Kind != engine.EventSkipped {
			o.events = append(o.events, fmt.Sprint(e.Kind, " ", e.Action, " ", e.Path, ": ", e.Err))
		}
	}
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	summary, err := engine.Run(limit, options, &counters.Set{})
	refused, isRefused := errors.AsType[*failure.RefusedError](err)
	switch {
	case isRefused:
		o.refused = true
		o.events = append(o.events, "refused: "+refused.Reason)
	case errors.Is(err, errStopped):
		return o, true, nil
	case err != nil:
		return o, false, err
	default:
		o.conflicts, o.mismatches, o.errors = int(summary.Conflicts), int(summary.Mismatches), int(summary.Errors)
		for i, t := range summary.Targets {
			o.manifests = append(o.manifests, nil)
			for _, m := range t.Manifests {
				p, inside := strings.CutPrefix(filepath.Clean(m.Path), filepath.Join(dir, placeDir(i))+"/")
				if !inside {
					p = outsideManifest
				}
				o.manifests[i] = append(o.manifests[i], reported{p, hash.Algorithm(m.Algorithm), m.Lines, m.SHA256, droppedOf(m)})
			}
		}
	}
	return o, false, nil
}

// droppedOf is how many lines of the previous manifest the summary of a manifest counts as
// dropped.
func droppedOf(m any) int {
	if v := reflect.ValueOf(m).FieldByName("Dropped"); v.IsValid() && v.CanInt() {
		return int(v.Int())
	}
	return noCount
}

// runUntil runs a command and stops it at an operation.
func (c command) runUntil(dir string, last int64) (o observation, stopped bool, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var count atomic.Int64
	sys := faultfs.New(func(fsys.Op, string) error {
		if count.Add(1) > last {
			cancel(errStopped)
		}
		return nil
	})
	return c.run(ctx, sys, dir)
}

// A failure of operations, for runFailing.
type injectedFailure struct {
	First int64         // the operation that fails
	Error syscall.Errno // how
	All   bool          // all later operations at the destination fail, too
}

// runFailing runs a command in which operations fail.
func (c command) runFailing(dir string, failing injectedFailure) (o observation, err error) {
	var count atomic.Int64
	sys := faultfs.New(func(op fsys.Op, _ string) error {
		n := count.Add(1)
		if n == failing.First || failing.All && n > failing.First && atDestinations[op] {
			return failing.Error
		}
		return nil
	})
	o, _, err = c.run(context.Background(), sys, dir)
	return o, err
}

// childVariable is the environment variable with the killedCommand for a child process.
const childVariable = "SEALIFT_MODEL_CHILD"

// killedCommand is a command, and the operation at which its process is killed.
type killedCommand struct {
	Dir     string
	Command command
	Last    int64
}

// TestModelProcess is no test: it is the process that runKilled starts.
func TestModelProcess(t *testing.T) {
	given := os.Getenv(childVariable)
	if given == "" {
		t.Skip("it is run by other tests, in a process that dies")
	}
	var d killedCommand
	require.NoError(t, json.Unmarshal([]byte(given), &d))
	var count atomic.Int64
	sys := faultfs.New(func(fsys.Op, string) error {
		if count.Add(1) > d.Last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // no operation follows
		}
		return nil
	})
	_, _, err := d.Command.run(context.Background(), sys, d.Dir)
	require.NoError(t, err)
}

// runKilled runs a command in another process, which is killed at an operation. It
// returns false if the run ended before that operation.
func (c command) runKilled(dir string, last int64) (killed bool, err error) {
	given, err := json.Marshal(killedCommand{dir, c, last})
	if err != nil {
		return false, err
	}
	child := exec.Command(os.Args[0], "-test.run=^TestModelProcess$")
	child.Env = append(os.Environ(), childVariable+"="+string(given))
	out, err := child.CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if failed && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("child: %w\n%s", err, out)
	}
	return false, nil
}
