package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/screentest"
)

func TestResultsAreWrittenSoonAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &notedWriter{}
		r := newResults(out, &printer{w: io.Discard})
		r.Line("one")
		r.Line("two")
		if w := out.noted(); len(w) != 0 {
			t.Errorf("written at once: %q", w)
		}
		time.Sleep(2 * resultsDelay)
		if w := out.noted(); !slices.Equal(w, []string{"one\ntwo\n"}) {
			t.Errorf("after a while: %q", w)
		}
		r.Line("three")
		r.Close()
		time.Sleep(time.Minute)
		if w := out.noted(); !slices.Equal(w, []string{"one\ntwo\n", "three\n"}) {
			t.Errorf("at the end: %q", w)
		}
	})
}

func TestAMillionResultsAreFewWrites(t *testing.T) {
	out := &notedWriter{}
	r := newResults(out, &printer{w: io.Discard})
	for range 100_000 {
		r.Line("a file: OK")
	}
	r.Close()
	all := strings.Join(out.noted(), "")
	if all != strings.Repeat("a file: OK\n", 100_000) {
		t.Error("lines are lost or out of order")
	}
	if n := len(out.noted()); n > len(all)/resultsSize+20 {
		t.Errorf("%d writes for %d bytes", n, len(all))
	}
}

// The bar and messages never follow an incomplete line.
func TestResultsWriteWholeLines(t *testing.T) {
	out := &notedWriter{}
	r := newResults(out, &printer{w: io.Discard})
	_, _ = io.WriteString(r, "one\ntw")
	r.Flush()
	if w := out.noted(); !slices.Equal(w, []string{"one\n"}) {
		t.Errorf("%q", w)
	}
	_, _ = io.WriteString(r, "o\n"+strings.Repeat("x", resultsSize)+"\nrest")
	if w := out.noted(); len(w) != 2 || !strings.HasPrefix(w[1], "two\nxxx") || !strings.HasSuffix(w[1], "x\n") {
		t.Errorf("%d writes, the last %.20q", len(w), w[len(w)-1])
	}
	r.Close()
	if w := out.noted(); len(w) != 3 || w[2] != "rest" {
		t.Errorf("%d writes", len(w))
	}
}

// Lines that end in NUL bytes are written before the run ends.
func TestResultsMayEndInNUL(t *testing.T) {
	out := &notedWriter{}
	r := newResults(out, &printer{w: io.Discard})
	_, _ = io.WriteString(r, "one\x00t")
	r.Flush()
	_, _ = io.WriteString(r, "wo\x00")
	r.Close()
	if w := out.noted(); !slices.Equal(w, []string{"one\x00", "two\x00"}) {
		t.Errorf("written: %q", w)
	}
}

func TestResultsReportTheFirstErrorOnceAndWriteNoMore(t *testing.T) {
	out := &notedWriter{fails: errors.New("full")}
	var failed []error
	r := newResults(out, &printer{w: io.Discard})
	r.failed = func(err error) { failed = append(failed, err) }
	if n, err := io.WriteString(r, "one\n"); n != 4 || err != nil {
		t.Errorf("a line that waits: %d bytes, %v", n, err)
	}
	r.Flush()
	out.fails = nil
	if _, err := io.WriteString(r, "two\n"); err == nil || err.Error() != "full" || r.Err() == nil {
		t.Errorf("a line after that: %v, %v", err, r.Err())
	}
	r.Close()
	if w := out.noted(); len(w) != 0 {
		t.Errorf("written after the error: %q", w)
	}
	if len(failed) != 1 || failed[0].Error() != "full" {
		t.Errorf("errors reported: %v", failed)
	}
}

// If standard output and standard error are one terminal, results are above the bar, and each
// message is after the results that came before it.
func TestResultsAndBarDoNotCollide(t *testing.T) {
	s := screentest.New(40, 20)
	p := &printer{w: s}
	reports := &reporter{screen: p, results: &results{w: s, screen: p, shared: true}}
	p.Bar("45% [===>   ] 1.44 GB/s ETA 0:12")
	reports.results.Line("'a': FAILED")
	reports.results.Flush()
	require.Equal(t, []string{"'a': FAILED", "45% [===>   ] 1.44 GB/s ETA 0:12"}, s.Lines())
	reports.results.Line("'b': OK")
	reports.print("'c': verify: permission denied")
	reports.results.Line("'c': FAILED open or read")
	p.Bar("46% [===>   ] 1.44 GB/s ETA 0:11")
	p.Bar("")
	reports.results.Close()
	require.Equal(t, []string{"'a': FAILED", "'b': OK", "sealift: 'c': verify: permission denied", "'c': FAILED open or read"}, s.Lines())
}

func TestResultsThroughAPipeLeaveTheBarAlone(t *testing.T) {
	var bar, pipe bytes.Buffer
	p := &printer{w: &bar}
	r := newResults(&pipe, p)
	p.Bar("bar")
	before := bar.Len()
	r.Line("line")
	r.Close()
	if bar.Len() != before || pipe.String() != "line\n" {
		t.Errorf("screen %q, pipe %q", &bar, &pipe)
	}
}

func TestResultsMayBeUsedFromSeveralGoroutines(t *testing.T) {
	s := screentest.New(80, 300)
	p := &printer{w: s}
	r := &results{w: s, screen: p, shared: true}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 60 {
				p.Bar(fmt.Sprintf("bar %d", j))
				r.Line(fmt.Sprintf("line %d", i))
				if j%10 == 0 {
					r.Flush()
				}
			}
		})
	}
	wg.Wait()
	p.Bar("")
	r.Close()
	require.Len(t, s.Lines(), 240)
	for _, line := range s.Lines() {
		if !strings.HasPrefix(line, "line ") || len(line) != len("line 0") {
			t.Fatalf("a line reads %q", line)
		}
	}
}
