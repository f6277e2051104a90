// Package progress shows how far a run has come. It reads the engine's
// counters at its own pace; nothing that copies waits for it.
//
// It is the only package that imports the bar library. It never writes to a terminal
// itself: the owner of the terminal gives it a [Screen].
package progress

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/counters"
)

// Mode says how progress is shown.
type Mode uint8

// The modes.
const (
	ModeAuto  Mode = iota // see [Mode.Resolve]
	ModeBar               // a few lines, redrawn in place
	ModePlain             // a line of text now and then
	ModeJSON              // a JSON object per line
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

// Resolve replaces ModeAuto by what suits the place that the output goes to.
// Other modes were asked for and stay.
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

// Intervals of the modes. A bar faster than four times a second only flickers.
const (
	tick          = 250 * time.Millisecond // samples and redraws of the bar
	jsonInterval  = time.Second
	plainInterval = 10 * time.Second
)

// A Screen is where progress appears, and where others may write, too. Its
// methods are called from one goroutine, and must be safe beside those others.
type Screen interface {
	// Bar replaces the bar by lines, the last one without a line end; "" removes it.
	Bar(lines string)
	// Line writes a line that stays.
	Line(line string)
}

// Config says what to show, how, and where.
type Config struct {
	Mode     Mode // not ModeAuto
	Counters *counters.Set
	Screen   Screen

	// For ModeBar.
	Size func() (columns, rows int) // of the terminal at this moment
	Look Look
}

// Progress watches one run, from [Start] to [Progress.Stop].
type Progress struct {
	config Config
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	sampler sampler
}

// Start begins to watch. It starts one goroutine, which ends in Stop.
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

// Stop ends the watch and waits for its goroutine: afterwards the bar is gone,
// and nothing more is written. In ModeJSON a last object has the final
// state. Stop may be called more than once.
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
		switch now := time.Now(); p.config.Mode {
		case ModeBar:
			columns, rows := p.config.Size() // which may have changed since the last frame
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

// text is the line of ModePlain and of the status signal.
func (s snapshot) text() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s: %s", s.phase, Size(s.bytes))
	if s.totalsKnown {
		fmt.Fprintf(&sb, " of %s (%d%%)", Size(s.totalBytes), s.percent())
	}
	switch {
	case s.bytesOnly:
	case s.totalsKnown:
		fmt.Fprintf(&sb, ", %d of %d files", s.files, s.totalFiles)
	default:
		fmt.Fprintf(&sb, ", %d files", s.files)
	}
	fmt.Fprintf(&sb, ", %s (average %s)", Rate(s.rate), Rate(s.average))
	if eta, ok := s.eta(); ok {
		fmt.Fprintf(&sb, ", %s left", Clock(eta))
	}
	return sb.String()
}

// jsonSchema is the version of that object. It grows when a field changes its
// meaning or is removed, not when one is added.
const jsonSchema = 1

// report is the object of ModeJSON; docs/schema/progress.json describes it. Totals and what follows from them are
// null until they are known.
type report struct {
	Schema         int      `json:"schema"`
	Phase          string   `json:"phase"`
	Bytes          int64    `json:"bytes"` // without those that are unwritten
	TotalBytes     *int64   `json:"total_bytes"`
	Files          int64    `json:"files"`
	TotalFiles     *int64   `json:"total_files"`
	Unwritten      int64    `json:"unwritten_bytes"` // read, and not on the slowest destination's device yet
	Rate           float64  `json:"rate"`            // bytes per second, lately
	Average        float64  `json:"average_rate"`    // bytes per second, since the start; verifying starts anew
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
		// Only a NaN or an infinity could get here, and the sampler makes none.
		return "{}"
	}
	return string(line)
}
