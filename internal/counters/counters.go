// Package counters holds the counters that show the progress of a run. Workers add to
// them and never send a message; the progress display reads them at its own pace.
package counters

import (
	"math"
	"sync"
	"sync/atomic"
)

// Phase is the present activity of a run.
type Phase int32

// The phases.
const (
	PhaseStarting Phase = iota
	PhaseScanning       // The run counts the work, which has already begun.
	PhaseCopying
	PhaseFlushing  // The run waits for the device.
	PhaseVerifying // The run reads destinations again, or checks manifests.
	PhaseHashing
	PhaseComparing
	PhaseRepairing // The run replaces damaged files.
	PhaseDone
	PhaseStopped // The run was stopped before the end.
)

// End returns the phase of a run that has ended.
func End(stopped bool) Phase {
	if stopped {
		return PhaseStopped
	}
	return PhaseDone
}

func (p Phase) String() string {
	return [...]string{"starting", "scanning", "copying", "flushing", "verifying", "hashing", "comparing", "repairing", "done", "stopped"}[p]
}

// Work has the amount of work that is done, and the total.
type Work struct {
	Bytes      atomic.Int64 // bytes of the files that are done, failed ones included
	Files      atomic.Int64 // regular files that are done, failed ones included
	TotalBytes atomic.Int64
	TotalFiles atomic.Int64
}

// Set holds the counters of one run. Every field may be read at any time.
type Set struct {
	Phase        atomic.Int32 // a Phase
	Work                      // A scan ahead of the work counts its totals. They are final when ScanDone is set.
	Unread       atomic.Int64 // The part of Bytes that the run did not read: files that were skipped, failed, or copied by an interrupted run.
	Checked      atomic.Int64 // The bytes of CheckTotal that were read.
	CheckTotal   atomic.Int64 // Bytes of earlier runs that are read before the copy of their file: for digests that cannot go on in the middle, or to compare.
	ResumedFiles atomic.Int64 // The part of Files that an interrupted run has copied.
	ScanDone     atomic.Bool
	Unwritten    atomic.Int64 // The part of Bytes that the slowest destination's device does not have yet.
	DeviceRate   atomic.Int64 // Bytes per second of that device, 0 while unknown.
	BytesOnly    atomic.Bool  // There are no files to count.
	Verifies     atomic.Bool  // The copy is read back when it is complete.
	ReadBack     Work         // The bytes that --verify reads, once at each destination. Totals are 0 before it begins.

	workers struct {
		sync.Mutex
		list []*Worker
	}
	destinations atomic.Pointer[[]*Destination]
	// CountTotals makes a run count the totals ahead of the work, and name the files in
	// flight. Set it before the run begins if these are shown.
	CountTotals bool
}

// Destination holds the counters of one of several destinations, or of one of several trees that are
// checked.
type Destination struct {
	Name      string                 // The name that the user gave.
	Device    uint64                 // Destinations with the same value are on one device.
	Unwritten atomic.Int64           // The part of Bytes that its device does not have yet.
	Dropped   atomic.Pointer[string] // The reason why nothing more is written there; nil if it is not dropped.
	ReadBack  Work                   // The part of Set.ReadBack, or of a check, that is read there.
}

// Destinations returns the destinations of a copy to several, in their order.
func (c *Set) Destinations() []*Destination {
	if list := c.destinations.Load(); list != nil {
		return *list
	}
	return nil
}

// SetDestinations is called once, when there is more than one.
func (c *Set) SetDestinations(list []*Destination) { c.destinations.Store(&list) }

// Grow adds n, which must not be negative, to a counter of bytes. The counter stops at its
// largest value, because sparse files can have a size of 8 EiB each.
func Grow(c *atomic.Int64, n int64) {
	if c.Add(n) < 0 {
		c.Store(math.MaxInt64)
	}
}

// Times returns n times size bytes, at most the largest int64.
func Times(n, size int64) int64 {
	if size > 0 && n > math.MaxInt64/size {
		return math.MaxInt64
	}
	return n * size
}

// Plus returns the sum of a and b bytes, at most the largest int64.
func Plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
