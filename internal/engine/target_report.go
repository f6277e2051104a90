package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

// This file reports what goes wrong at one destination, and drops it.

// drop stops the run from writing to the destination, and reports why, once.
func (t *target) drop(path string, err error) {
	err = t.space.Explain(err, t.root, path, t.created, t.totals)
	if t.lost.CompareAndSwap(nil, &err) {
		text := err.Error()
		t.shown.Dropped.Store(&text)
		t.report(event.Event{Kind: event.DestinationLost, Path: path, Target: t.Given, Err: err})
		t.onDrop()
	}
}

// isGone reports whether err, which an operation in the destination returned, means that the whole
// destination is lost. The error number is not enough: XFS that has shut down returns the same
// number as a bad sector, and a removed destination the same as a removed file.
func (t *target) isGone(err error) (gone bool, cause error) {
	failed := fsys.DeviceFailed(err)
	switch {
	case fsys.DestinationLost(err):
		return true, err
	case t.journal == nil || !failed && !errors.Is(err, fs.ErrNotExist) && !fsys.NotPermitted(err):
		return false, err // without a journal it is a dry run
	case t.checkName() != nil || failed && !t.canCreate():
		return true, fmt.Errorf("%w, and nothing can be made there any more", err)
	}
	return false, err
}

// canCreate reports whether a file can be created in the destination.
func (t *target) canCreate() bool {
	p, err := t.root.Create(false)
	if err == nil {
		p.Abort()
	}
	return err == nil
}

func (t *target) isDropped() bool { return t.lost.Load() != nil }

// warn reports metadata that the destination does not hold, once for each kind.
func (t *target) warn(kind string, err error) {
	if t.warned.add(kind) {
		t.report(event.Event{Kind: event.Warning, Target: t.Given, Err: err})
	}
}

// failEnd reports an error that concerns a whole destination. A failed device, or one that became
// read-only, is reported only once: here, or when the destination is dropped.
func (t *target) failEnd(stage failure.Stage, err error) {
	if fsys.DeviceFailed(err) {
		lost := t.lost.Load()
		if lost != nil && fsys.DeviceFailed(*lost) || t.deviceFailed.Swap(true) {
			return
		}
	}
	if lost := t.lost.Load(); lost != nil && fsys.ReadOnly(err) && fsys.ReadOnly(*lost) {
		return
	}
	t.report(event.OfFile(event.Failed, "", t.Given, stage, err))
}

// fail reports an error at one destination, and drops the destination if the error
// concerns more than the entry.
func (t *target) fail(path string, stage failure.Stage, err error) {
	if t.isDropped() || errors.Is(err, errReported) {
		return
	}
	if unflushed, ok := errors.AsType[*dest.FlushError](err); ok {
		t.drop(path, unflushed)
		return
	}
	if gone, err := t.isGone(err); gone {
		t.drop(path, err)
		return
	}
	making := stage == failure.StageCreate || stage == failure.StageCommit
	if name := path[strings.LastIndexByte(path, '/')+1:]; making && fsys.NameRefused(name, err) {
		err = fmt.Errorf("the destination does not accept this name: %w", err)
	}
	t.report(event.OfFile(event.Failed, path, t.Given, stage, err))
}

// mismatch reports a file at a destination whose content does not match its expected digest.
func (t *target) mismatch(path string, err error) {
	t.report(event.OfFile(event.Mismatch, path, t.Given, failure.StageVerify, err))
}

// conflict reports an entry that is left unchanged at one destination because of a conflict.
func (t *target) conflict(path string, c *conflictError) {
	t.report(event.Event{Kind: event.Conflict, Path: path, Target: t.Given, Err: c, Hint: c.policy(), Next: c.next})
}

// dropFlushFailed drops a destination after its device failed to take written data. Data that no
// earlier checkpoint covers may be lost. The caller must not flush again: the kernel reports a
// writeback error once, and success afterwards.
func (t *target) dropFlushFailed(path string, err error) {
	t.fileSystems.Failed.Store(true)
	t.drop(path, &dest.FlushError{Err: err})
}
