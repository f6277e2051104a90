package pipe

import "runtime"

// Defaults for the fields of a Pipe.
const (
	DefaultBlockSize = 128 << 10 // bytes; larger leaves the L2 cache, see docs/benchmarks.md
	DefaultQueueSize = 10        // blocks; evens out short stalls of a stage
)

// DefaultWorkers returns the default number of files in progress at the same time. It is larger
// than the number of cores, because some workers wait for a device.
func DefaultWorkers() int { return min(max(2*runtime.GOMAXPROCS(0), 4), 32) }
