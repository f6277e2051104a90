package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestMessagesAndBarDoNotCollide(t *testing.T) {
	s := &screen{columns: 40}
	p := &printer{w: s}
	p.Line("before")
	p.Bar("45% [===>   ] 1.44 GB/s ETA 0:12")
	_, _ = s.Write([]byte("^C")) // the terminal's echo
	p.Bar("45% [===>   ] 1.44 GB/s ETA 0:11")
	if got := s.now(); got != "45% [===>   ] 1.44 GB/s ETA 0:11" {
		t.Errorf("after ^C the bar reads %q", got)
	}
	p.Bar("45% [===>   ] 1.44 GB/s ETA 0:12")
	_, _ = s.Write([]byte("^C"))
	p.Line("sealift: 'a': short")
	if got := s.now(); got != "45% [===>   ] 1.44 GB/s ETA 0:12" {
		t.Errorf("below a message the bar reads %q", got)
	}
	p.Bar("46% shorter")
	if got := s.now(); got != "46% shorter" {
		t.Errorf("the bar reads %q", got)
	}
	p.Line("sealift: 'b': again")
	writes := s.writes
	p.Bar("46% shorter")
	if s.writes != writes {
		t.Error("an unchanged bar is drawn again")
	}
	p.Bar("47%")
	p.Bar("")
	if s.now() != "" || s.at != 0 {
		t.Errorf("at the end the line reads %q, cursor at %d", s.now(), s.at)
	}
	p.Line("after")
	want := []string{"before", "sealift: 'a': short", "sealift: 'b': again", "after"}
	if !slices.Equal(s.lines, want) {
		t.Errorf("lines %q, want %q", s.lines, want)
	}
}

func TestBarDoesNotWrapWhenTheTerminalShrinks(t *testing.T) {
	s := &screen{columns: 80}
	p := &printer{w: s}
	p.Bar(strings.Repeat("x", 79))
	s.columns, s.row, s.at = 30, nil, 0 // where a terminal puts the old text is its own affair
	p.Bar(strings.Repeat("y", 29))
	p.Bar("z")
	p.Line("message")
	p.Bar("")
	if len(s.lines) != 1 || s.lines[0] != "message" || s.now() != "" {
		t.Errorf("lines %q, row %q", s.lines, s.now())
	}
}

// Each drawing is one write, so that nothing gets in between or flickers.
func TestEveryDrawingIsOneWrite(t *testing.T) {
	s := &screen{columns: 80}
	p := &printer{w: s}
	p.Bar("bar")
	p.Line("line")
	p.Bar("other bar")
	p.Bar("")
	if s.writes != 4 {
		t.Errorf("%d writes for 4 drawings", s.writes)
	}
}

func TestPrinterMayBeUsedFromSeveralGoroutines(t *testing.T) {
	var buf bytes.Buffer
	p := &printer{w: &buf}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 100 {
				p.Bar(fmt.Sprintf("bar %d", j))
				p.Line(fmt.Sprintf("line %d", i))
			}
		})
	}
	wg.Wait()
	p.Bar("")
	s := &screen{columns: 80}
	_, _ = s.Write(buf.Bytes())
	for _, line := range s.lines {
		if !strings.HasPrefix(line, "line ") || len(line) != len("line 0") {
			t.Fatalf("a line reads %q", line)
		}
	}
	if len(s.lines) != 400 {
		t.Errorf("%d lines, want 400", len(s.lines))
	}
}

// While another command may have its bar on the terminal, lines erase it, and no second bar
// is drawn.
func TestTheBarOfAnotherCommand(t *testing.T) {
	var sb strings.Builder
	free := false
	p := &printer{w: &sb, claim: func() bool { return free }}
	p.Line("before")
	p.Bar("50 %")
	p.Line("message")
	p.WithoutBar(func() { sb.WriteString("result\n") })
	free = true
	p.Bar("60 %")
	free = false // it was claimed for good
	p.Bar("70 %")
	p.Line("last")
	want := "before\n" + "\r\x1b[Kmessage\n" + "\r\x1b[Kresult\n" + "\r60 %\x1b[K" + "\r70 %\x1b[K" + "\r\x1b[Klast\n70 %"
	if sb.String() != want {
		t.Errorf("got %q, want %q", sb.String(), want)
	}
}

func TestABarOfSeveralLinesIsReplacedInPlace(t *testing.T) {
	var out bytes.Buffer
	p := &printer{w: &out}
	next := func(draw func()) string {
		out.Reset()
		draw()
		return out.String()
	}
	if got, want := next(func() { p.Bar("45%\na\nb") }), "\r45%\x1b[K\na\x1b[K\nb\x1b[K"; got != want {
		t.Errorf("first %q, want %q", got, want)
	}
	if got, want := next(func() { p.Bar("46%\na\nb") }), "\r\x1b[2A46%\x1b[K\na\x1b[K\nb\x1b[K"; got != want {
		t.Errorf("next %q, want %q", got, want)
	}
	if got, want := next(func() { p.Line("message") }), "\r\x1b[2A\x1b[Jmessage\n46%\na\nb"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if got, want := next(func() { p.Bar("") }), "\r\x1b[2A\x1b[K\x1b[J"; got != want {
		t.Errorf("end %q, want %q", got, want)
	}
}
