// Package progress shows the progress of a run. It reads the counters of the run at fixed
// intervals. No goroutine of the run waits for it.
//
// It is the only package that imports the bar library. It does not write to the terminal: it
// draws on a [Screen], which the owner of the terminal provides.
package progress

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/units"
)

// Mode selects how progress is shown.
type Mode uint8

// The modes.
const (
	ModeAuto  Mode = iota // [Mode.Resolve] chooses another mode.
	ModeBar               // A few lines are redrawn in place.
	ModePlain             // A line of text appears every ten seconds.
	ModeJSON              // A line with a JSON object appears every second.
	ModeNone
)

// Modes are the values of --progress.
var Modes = choice.Table[Mode]{What: "progress mode", Names: []string{
	ModeAuto:  "auto",
	ModeBar:   "bar",
	ModePlain: "plain",
	ModeJSON:  "json",
	ModeNone:  "none",
}}

func (m Mode) String() string { return Modes.Name(m) }

// Resolve replaces ModeAuto by ModeNone if quiet is set, by ModeBar on a terminal, and otherwise
// by ModePlain. It returns other modes unchanged.
func (m Mode) Resolve(terminal, quiet bool) Mode {
	switch {
	case m != ModeAuto:
		return m
	case quiet:
		return ModeNone
	case terminal:
		return ModeBar
	}
	return ModePlain
}

// Intervals of the modes. A bar that is drawn more than four times a second flickers.
const (
	tick          = 250 * time.Millisecond // time between two samples, and between two redraws of the bar
	jsonInterval  = time.Second
	plainInterval = 10 * time.Second
)

// Screen is the place where progress appears. Its methods are called from one goroutine. They
// must be safe while other goroutines write to the same place.
type Screen interface {
	// Bar replaces the bar by lines, the last one without a line end; "" removes it.
	Bar(lines string)
	// Line writes a line that stays.
	Line(line string)
}

// Config selects what is shown, how, and where.
type Config struct {
	Mode     Mode // any mode but ModeAuto
	Counters *counters.Set
	Screen   Screen

	// For ModeBar.
	Size    func() (columns, rows int) // the present size of the terminal
	Look    Look
	Running bool // show several running files, each with its own percentage
}

// Progress shows one run, from [Start] to [Progress.Stop].
type Progress struct {
	config Config
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	long   longRunning // only the goroutine of watch uses it

	mu      sync.Mutex
	sampler sampler
}

// Start begins to show progress. It starts one goroutine, which Stop ends.
func Start(c Config) *Progress {
	p := &Progress{
		config:  c,
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		sampler: newSampler(time.Now()),
	}
	go p.watch()
	return p
}

// Stop ends the display and waits for its goroutine. It removes the bar; in ModeJSON it writes a
// last object with the final state. After Stop, nothing is written to the Screen. Stop may be
// called more than once.
func (p *Progress) Stop() {
	p.once.Do(func() { close(p.stop) })
	<-p.done
}

// Status returns the present state as one line of text.
func (p *Progress) Status() string { return p.snapshot().text() }

func (p *Progress) snapshot() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sampler.take(time.Now(), p.config.Counters)
}

func (p *Progress) watch() {
	defer close(p.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	shown := time.Now()
	for frame := 0; ; frame++ {
		select {
		case <-p.stop:
			p.finish()
			return
		case <-ticker.C:
		}
		s := p.snapshot()
		if p.config.Running {
			s.running = p.long.lasting(time.Now(), p.config.Counters.Running())
		}
		switch now := time.Now(); p.config.Mode {
		case ModeBar:
			columns, rows := p.config.Size() // the size may have changed since the last frame
			p.config.Screen.Bar(strings.Join(view(s, columns, rows, frame, p.config.Look), "\n"))
		case ModePlain:
			if now.Sub(shown) >= plainInterval {
				shown = now
				p.config.Screen.Line(s.text())
			}
		case ModeJSON:
			if now.Sub(shown) >= jsonInterval {
				shown = now
				p.config.Screen.Line(s.json())
			}
		}
	}
}

func (p *Progress) finish() {
	switch p.config.Mode {
	case ModeBar:
		p.config.Screen.Bar("")
	case ModeJSON:
		p.config.Screen.Line(p.snapshot().json())
	}
}

// text returns the line of ModePlain and of the status signal.
func (s snapshot) text() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s: %s", s.phase, units.Size(s.bytes))
	if s.totalsKnown {
		fmt.Fprintf(&sb, " of %s (%d%%)", units.Size(s.totalBytes), s.percent())
	}
	switch {
	case s.bytesOnly:
	case s.totalsKnown:
		fmt.Fprintf(&sb, ", %d of %d files", s.files, s.totalFiles)
	default:
		fmt.Fprintf(&sb, ", %d files", s.files)
	}
	fmt.Fprintf(&sb, ", %s (average %s)", units.Rate(s.rate), units.Rate(s.average))
	if eta, ok := s.eta(); ok {
		fmt.Fprintf(&sb, ", %s left", units.Clock(eta))
	}
	if check := s.check(); check != "" {
		sb.WriteString(", " + check)
	}
	return sb.String()
}

// check says how much of what an earlier run has copied is read again, or nothing.
func (s snapshot) check() string {
	if s.unchecked() == 0 {
		return ""
	}
	return fmt.Sprintf("checking %s of %s that an earlier run copied", units.Size(s.checked), units.Size(s.checkTotal))
}

// jsonSchema is the version of the object of ModeJSON. Increase it when a field changes its
// meaning or is removed, not when one is added.
const jsonSchema = 1

// report is the object of ModeJSON, which docs/schema/progress.json describes. Totals and the time
// left are null until they are known.
type report struct {
	Schema         int      `json:"schema"`
	Phase          string   `json:"phase"`
	Bytes          int64    `json:"bytes"` // number of bytes without unwritten ones
	TotalBytes     *int64   `json:"total_bytes"`
	Files          int64    `json:"files"`
	TotalFiles     *int64   `json:"total_files"`
	Unwritten      int64    `json:"unwritten_bytes"` // read bytes that the slowest destination's device lacks
	Checked        int64    `json:"checked_bytes"`   // bytes of an earlier run that were read again
	CheckTotal     int64    `json:"to_check_bytes"`  // total of Checked
	Rate           float64  `json:"rate"`            // bytes per second, over the last seconds
	Average        float64  `json:"average_rate"`    // bytes per second since the start of the copy, or of verifying
	ElapsedSeconds float64  `json:"elapsed_seconds"`
	ETASeconds     *float64 `json:"eta_seconds"`
}

func (s snapshot) json() string {
	r := report{
		Schema:         jsonSchema,
		Phase:          s.phase.String(),
		Bytes:          s.bytes,
		Files:          s.files,
		Unwritten:      s.unwritten,
		Checked:        s.checked,
		CheckTotal:     s.checkTotal,
		Rate:           s.rate,
		Average:        s.average,
		ElapsedSeconds: s.elapsed.Seconds(),
	}
	if s.totalsKnown {
		r.TotalBytes, r.TotalFiles = &s.totalBytes, &s.totalFiles
	}
	if eta, ok := s.eta(); ok {
		seconds := eta.Seconds()
		r.ETASeconds = &seconds
	}
	line, err := json.Marshal(r)
	if err != nil {
		// Only NaN and infinity fail, and the sampler returns neither.
		return "{}"
	}
	return string(line)
}
