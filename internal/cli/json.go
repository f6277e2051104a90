package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/engine"
)

// jsonSchema is the version of all JSON output, which docs/schema describes. It
// grows when a field changes its meaning or goes away, not when one is added.
const jsonSchema = 1

// reportJSON is the account of a copy for programs.
type reportJSON struct {
	Schema       int            `json:"schema"`
	DryRun       bool           `json:"dry_run"`
	Counts       countsJSON     `json:"counts"`
	Bytes        int64          `json:"bytes"`
	Seconds      float64        `json:"seconds"`
	Rate         float64        `json:"rate"`          // bytes per second
	ResumedFiles int64          `json:"resumed_files"` // not read again: an interrupted copy had done them
	ResumedBytes int64          `json:"resumed_bytes"` // of those files, and of the parts that others had already
	Targets      []targetJSON   `json:"targets"`
	Failures     []failureJSON  `json:"failures"`
	Conflicts    []conflictJSON `json:"conflicts"`
	Warnings     []warningJSON  `json:"warnings"`
	Stages       []stageJSON    `json:"stages"` // where the time went
	Shares       []shareJSON    `json:"shares"` // what was waited for
	Limit        *shareJSON     `json:"limit"`  // what was waited for most, or null
	ExitCode     int            `json:"exit_code"`
}

type countsJSON struct {
	Files       int64 `json:"files"`
	Directories int64 `json:"directories"`
	Links       int64 `json:"links"`
	HardLinks   int64 `json:"hard_links"`
	Specials    int64 `json:"specials"`
	Skipped     int64 `json:"skipped"`
	Conflicts   int64 `json:"conflicts"`
	Mismatches  int64 `json:"mismatches"`
	Errors      int64 `json:"errors"`
	Warnings    int64 `json:"warnings"`
}

// nameJSON is a name. One that is not UTF-8 has its bytes beside it, because
// JSON cannot hold them.
type nameJSON struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
}

func newNameJSON(name string) nameJSON {
	n := nameJSON{Path: name}
	if !utf8.ValidString(name) {
		n.PathBase64 = base64.StdEncoding.EncodeToString([]byte(name))
	}
	return n
}

type targetJSON struct {
	nameJSON
	Lost      *string        `json:"lost"` // why it was given up, or null
	Manifests []manifestJSON `json:"manifests"`
	Verified  int64          `json:"verified"`               // files read back
	Cached    int64          `json:"verified_through_cache"` // of those, perhaps from memory
}

type manifestJSON struct {
	nameJSON
	Algorithm string `json:"algorithm"`
	Lines     int    `json:"lines"`
	Dropped   int    `json:"dropped"` // lines of an earlier run for files that are gone or were replaced
	SHA256    string `json:"sha256"`  // of the manifest; "" if it had no line left and was removed
}

type failureJSON struct {
	nameJSON
	Target string `json:"target"` // "" where it is the source's failure
	Stage  string `json:"stage"`
	Error  string `json:"error"`
}

type conflictJSON struct {
	nameJSON
	Target string `json:"target"`
	Error  string `json:"error"`
	Hint   string `json:"hint,omitempty"`
}

type warningJSON struct {
	nameJSON
	Target string `json:"target"`
	Error  string `json:"error"`
}

func newReport(s *engine.Summary, r *reporter, result outcome) reportJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := reportJSON{
		Schema: jsonSchema,
		DryRun: s.DryRun,
		Counts: countsJSON{
			Files:       s.Files,
			Directories: s.Directories,
			Links:       s.Links,
			HardLinks:   s.HardLinks,
			Specials:    s.Specials,
			Skipped:     s.Skipped,
			Conflicts:   s.Conflicts,
			Mismatches:  r.mismatches,
			Errors:      r.errors,
			Warnings:    s.Warnings,
		},
		Bytes:        s.Bytes,
		Seconds:      s.Elapsed.Seconds(),
		Rate:         math.Round(rate(s.Bytes, s.Elapsed)),
		ResumedFiles: s.ResumedFiles,
		ResumedBytes: s.ResumedBytes,
		Targets:      []targetJSON{},
		Failures:     append([]failureJSON{}, r.failures...), // [] and not null
		Conflicts:    append([]conflictJSON{}, r.conflicts...),
		Warnings:     append([]warningJSON{}, r.warnings...),
		ExitCode:     result.code(),
	}
	report.Stages, report.Shares, report.Limit = newStagesJSON(s)
	for _, t := range s.Targets {
		target := targetJSON{nameJSON: newNameJSON(t.Path), Manifests: []manifestJSON{}, Verified: t.Verified, Cached: t.Cached}
		if t.Lost != nil {
			text := t.Lost.Error()
			target.Lost = &text
		}
		for _, m := range t.Manifests {
			target.Manifests = append(target.Manifests, manifestJSON{newNameJSON(m.Path), m.Algorithm, m.Lines, m.Dropped, m.SHA256})
		}
		report.Targets = append(report.Targets, target)
	}
	return report
}

// printRefusal tells a program that nothing was done.
func printRefusal(w io.Writer, err error, code int) {
	printJSON(w, struct {
		Schema   int    `json:"schema"`
		ExitCode int    `json:"exit_code"`
		Error    string `json:"error"`
	}{jsonSchema, code, err.Error()})
}

// printJSON writes v on one line, in ASCII: names must reach a program as they
// are, and a terminal without control characters. A failed write shows in the
// writer, see [checkedWriter].
func printJSON(w io.Writer, v any) {
	var sb strings.Builder
	e := json.NewEncoder(&sb)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only a NaN or a type that JSON lacks; tests encode every type
	}
	_, _ = io.WriteString(w, asciiJSON(sb.String()))
}

// asciiJSON escapes every character of encoded JSON from DEL on.
func asciiJSON(s string) string {
	var sb strings.Builder
	for _, c := range s {
		switch {
		case c < 0x7f:
			sb.WriteRune(c)
		case c <= 0xffff:
			fmt.Fprintf(&sb, `\u%04x`, c)
		default:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&sb, `\u%04x\u%04x`, high, low)
		}
	}
	return sb.String()
}
