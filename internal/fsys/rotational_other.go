//go:build !linux

package fsys

// Rotational reports whether the directory's file system lies on a disk that
// spins: it is not asked here. Windows tells it of a volume
// (StorageDeviceSeekPenaltyProperty), whose name a handle does not.
func (d *Dir) Rotational() bool { return false }
