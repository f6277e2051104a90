package jobs

import (
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/pipe"
)

// The descriptors that the process may have open are divided here. A sixteenth is for the files of
// jobs in progress. A sixteenth is for the directories that waiting jobs hold. A quarter is
// for directories that are kept open. The rest is for manifests, destinations and the runtime.

// Workers returns how many workers each of so many devices gets. asked is the number that the
// user wants, 0 for one that suits the machine. files is the number of files that a job opens
// at the same time.
func Workers(asked, devices, files int) int {
	if asked == 0 {
		asked = pipe.DefaultWorkers()
	}
	return min(asked, share(16*devices*files))
}

// Directories returns how many directories each of so many caches may keep open.
func Directories(caches int) int { return min(share(4*caches), 256) }

// queueLength returns how many jobs may wait for the workers of a device.
func queueLength(workers, devices int) int { return min(4*workers, share(16*devices)) }

func share(part int) int { return max(fsys.OpenLimit()/part, 1) }

// NewPipe returns a pipe for so many workers, which together keep within the bandwidth and
// count the bytes that they read. bytesPerSecond is 0 for no limit.
func NewPipe(workers int, bytesPerSecond int64, bytes *atomic.Int64) *pipe.Pipe {
	p := &pipe.Pipe{
		Pool:      pipe.NewPool(pipe.DefaultBlockSize, int64(workers)*(pipe.DefaultQueueSize+2)*pipe.DefaultBlockSize),
		QueueSize: pipe.DefaultQueueSize,
		Bytes:     bytes,
	}
	if bytesPerSecond > 0 {
		p.Limiter = pipe.NewLimiter(bytesPerSecond, pipe.DefaultBlockSize)
	}
	return p
}

// ByDevice returns the indexes below n in groups with the same device, in the order of their
// first ones. The indexes of a group are the work of one queue.
func ByDevice(n int, device func(i int) uint64) (groups [][]int) {
	known := map[uint64]int{}
	for i := range n {
		g, isKnown := known[device(i)]
		if !isKnown {
			g = len(groups)
			known[device(i)] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}
