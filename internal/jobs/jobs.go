// Package jobs runs the jobs of the commands that read many files: verify, sum, compare, and
// the reading back of a copy. A command says what its jobs are, how a worker does one, and
// what follows from a result.
//
//	Produce ──jobs──▶ queue of device 1 ──▶ its workers: Work ──┐
//	   │                                                        ├──results──▶ Collect, one goroutine ──▶ Order
//	   └─────jobs──▶ queue of device 2 ──▶ its workers: Work ───┘
//
// An error of a job is a part of its result. Only Produce watches the context: after its end
// the workers pass on the jobs that are left without doing them.
package jobs

import (
	"context"
	"iter"
	"sync"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// Options describe the jobs of a command, and who does them.
type Options[J any] struct {
	Devices int // number of queues; each has its own workers
	Workers int // workers of each device, see Workers

	// Produce sends each job to the queue of a device, and returns when all of them are sent or
	// soon after the context has ended. It may call send from several goroutines. send waits
	// while the queue is full.
	Produce func(send func(device int, j J))

	// Work does all jobs of one worker, one after the other. It may do only a part of a job
	// whose context has ended.
	Work func(device int, jobs iter.Seq[J])

	// Collect receives each job once, from one goroutine, in the order in which they are
	// finished. done is false if the context has ended before the job was finished.
	Collect func(j J, done bool)

	Counters *counters.Set
	Path     func(J) string                        // path of the job's file, which the progress shows; "" for none
	Ahead    func(context.Context) (complete bool) // counts the totals, see counters.Set.CountAhead; may be nil
}

type result[J any] struct {
	job  J
	done bool
}

// Run does all jobs. It ends early with ctx; when it returns, all its goroutines have ended.
func Run[J any](ctx context.Context, o *Options[J]) {
	if o.Ahead != nil {
		defer o.Counters.CountAhead(ctx, o.Ahead)()
	}
	waiting := queueLength(o.Workers, o.Devices)
	queues := make([]chan J, o.Devices)
	results := make(chan result[J], waiting)
	var workers, all sync.WaitGroup
	for device := range queues {
		queues[device] = make(chan J, waiting)
		for range o.Workers {
			workers.Go(func() { o.work(ctx, device, queues[device], results) })
		}
	}
	all.Go(func() {
		// No send waits for ever: workers drain their queue, also after ctx has ended.
		o.Produce(func(device int, j J) { queues[device] <- j })
		for _, q := range queues {
			close(q)
		}
		workers.Wait()
		close(results)
	})
	for r := range results {
		o.Collect(r.job, r.done)
	}
	all.Wait()
}

// work is one worker.
func (o *Options[J]) work(ctx context.Context, device int, queue <-chan J, results chan<- result[J]) {
	shown := o.Counters.NewWorker()
	o.Work(device, func(yield func(J) bool) {
		for j := range queue {
			if ctx.Err() == nil {
				o.show(shown, j)
				yield(j)
				shown.End()
			}
			results <- result[J]{j, ctx.Err() == nil}
		}
	})
}

// show shows the file of a job, unless no progress is shown.
func (o *Options[J]) show(shown *counters.Worker, j J) {
	if shown == nil {
		return
	}
	if path := o.Path(j); path != "" {
		shown.Begin(path)
	}
}
