package cli

import "github.com/seed65876f4f/sealift/internal/usage"

// duReport gathers the account of du for programs.
type duReport struct {
	top     bool // a path comes before what is below it, and not behind
	paths   []duPathJSON
	pending []duEntryJSON // of a path that is yet to come
	total   uint64
}

type duReportJSON struct {
	Schema   int           `json:"schema"`
	Apparent bool          `json:"apparent"` // sizes, and not what is allocated
	Paths    []duPathJSON  `json:"paths"`
	Total    uint64        `json:"total"` // bytes
	Failures []failureJSON `json:"failures"`
	ExitCode int           `json:"exit_code"`
}

type duPathJSON struct {
	nameJSON
	Kind    string        `json:"kind"`
	Bytes   uint64        `json:"bytes"`
	Entries []duEntryJSON `json:"entries"` // below it, in the order of printing
}

type duEntryJSON struct {
	nameJSON
	Kind  string `json:"kind"`
	Bytes uint64 `json:"bytes"`
	Depth int    `json:"depth"`
}

func (r *duReport) entry(e usage.Entry) {
	name, kind := newNameJSON(e.Path), e.Kind.String()
	switch below := (duEntryJSON{name, kind, e.Bytes, e.Depth}); {
	case e.Depth == 0:
		r.paths = append(r.paths, duPathJSON{name, kind, e.Bytes, list(r.pending)})
		r.pending = nil
	case r.top:
		last := &r.paths[len(r.paths)-1]
		last.Entries = append(last.Entries, below)
	default:
		r.pending = append(r.pending, below)
	}
}

// finish leaves out what is pending: the size of its path is not known.
func (r *duReport) finish(s *usage.Summary, _ bool) { r.total = s.Bytes }

func (r *duReport) json(o *usage.Options, t *reporter, result outcome) duReportJSON {
	t.mu.Lock()
	defer t.mu.Unlock()
	return duReportJSON{
		Schema:   jsonSchema,
		Apparent: o.Apparent,
		Paths:    list(r.paths),
		Total:    r.total,
		Failures: list(t.mu.failures),
		ExitCode: result.code(),
	}
}
