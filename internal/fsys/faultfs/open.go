package faultfs

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// OpenFiles is an fsys.Tracker that knows which descriptors are open and who opened
// them. The zero value is ready.
type OpenFiles struct {
	mu struct {
		sync.Mutex
		open map[*fsys.Descriptor][]uintptr // the stack of the opener of each descriptor
	}
}

// Opened implements fsys.Tracker.
func (o *OpenFiles) Opened(d *fsys.Descriptor) {
	callers := make([]uintptr, 24)
	callers = callers[:runtime.Callers(3, callers)]
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.open == nil {
		o.mu.open = map[*fsys.Descriptor][]uintptr{}
	}
	o.mu.open[d] = callers
}

// Closed implements fsys.Tracker.
func (o *OpenFiles) Closed(d *fsys.Descriptor) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.open, d)
}

// Left describes each descriptor that is open: its path and the stack that opened it.
func (o *OpenFiles) Left() (left []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for d, callers := range o.mu.open {
		left = append(left, d.Path+stack(callers))
	}
	slices.Sort(left)
	return left
}

func stack(callers []uintptr) string {
	var sb strings.Builder
	for frames := runtime.CallersFrames(callers); ; {
		frame, more := frames.Next()
		_, name, _ := strings.Cut(frame.Function, "/internal/")
		if name != "" {
			fmt.Fprintf(&sb, "\n    %s:%d", name, frame.Line)
		}
		if !more {
			return sb.String()
		}
	}
}
