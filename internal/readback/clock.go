package readback

import (
	"sync"
	"time"
)

// clock measures the time in which at least one worker reads a file of a tree. Time in which the workers of
// a device read another tree, or wait for another device, is not part of it.
type clock struct {
	mu struct {
		sync.Mutex
		readers int       // number of workers that read now
		begun   time.Time // time when the first of them began
		elapsed time.Duration
	}
}

// begin is called before a worker reads a file. The worker calls end after it.
func (c *clock) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.readers == 0 {
		c.mu.begun = time.Now()
	}
	c.mu.readers++
}

func (c *clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.readers--; c.mu.readers == 0 {
		c.mu.elapsed += time.Since(c.mu.begun)
	}
}

// elapsed returns the time until now. No worker may be reading.
func (c *clock) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.elapsed
}
