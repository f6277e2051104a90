package cli

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/screentest"
)

func TestMessagesAndBarDoNotCollide(t *testing.T) {
	s := screentest.New(40, 20)
	p := &printer{w: s}
	const bar = "45% [===>   ] 1.44 GB/s ETA 0:12"
	p.Line("before")
	p.Bar(bar)
	_, _ = s.Write([]byte("^C")) // the terminal's echo
	p.Bar("46% longer than the other bar, by far")
	p.Bar(bar)
	require.Equal(t, []string{"before", bar}, s.Lines())
	_, _ = s.Write([]byte("^C"))
	p.Line("sealift: 'a': short")
	require.Equal(t, []string{"before", "sealift: 'a': short", bar}, s.Lines())
	writes := s.Writes()
	p.Bar(bar)
	require.Equal(t, writes, s.Writes(), "an unchanged bar is not drawn again")
	p.Bar("47%")
	p.Bar("")
	p.Line("after")
	require.Equal(t, []string{"before", "sealift: 'a': short", "after"}, s.Lines())
}

func TestABarOfSeveralLinesIsReplacedInPlace(t *testing.T) {
	s := screentest.New(40, 6)
	p := &printer{w: s}
	p.Line("before")
	for _, bar := range []string{"45%\nlong\nb", "46%\na\nb\nc", "47%\n\nc", "48%", "49%\na"} {
		p.Bar(bar)
		require.Equal(t, append([]string{"before"}, strings.Split(bar, "\n")...), s.Lines())
		row, column := s.Cursor()
		require.Equal(t, []int{1, 0}, []int{row, column}, "the cursor is where the bar begins")
	}
	for i := range 10 { // the screen scrolls
		p.Line(fmt.Sprint("message ", i))
	}
	require.Equal(t, []string{"message 6", "message 7", "message 8", "message 9", "49%", "a"}, s.Lines())
	p.Bar("")
	require.Equal(t, []string{"message 6", "message 7", "message 8", "message 9"}, s.Lines())
}

// The terminal becomes narrower between two drawings, or while one is under way.
func TestTheBarDoesNotWrapWhenTheTerminalShrinks(t *testing.T) {
	s := screentest.New(80, 20)
	p := &printer{w: s}
	p.Line("before")
	p.Bar(strings.Repeat("x", 79) + "\n" + strings.Repeat("y", 79))
	s.Resize(30, 20)
	p.Bar(strings.Repeat("z", 79) + "\n" + strings.Repeat("y", 79)) // of the old width
	p.Bar(strings.Repeat("x", 29) + "\nb")
	require.Equal(t, []string{"before", strings.Repeat("x", 29), "b"}, s.Lines())
	p.Line("message")
	p.Bar("")
	require.Equal(t, []string{"before", "message"}, s.Lines())
	p.Line(strings.Repeat("m", 40)) // a message wraps
	require.Equal(t, []string{"before", "message", strings.Repeat("m", 30), strings.Repeat("m", 10)}, s.Lines())
}

// Each drawing is one write, so that it does not flicker and other output cannot split it.
func TestEveryDrawingIsOneWrite(t *testing.T) {
	s := screentest.New(80, 20)
	p := &printer{w: s}
	p.Bar("bar\nof lines")
	p.Line("line")
	p.Bar("other bar")
	p.Bar("")
	require.Equal(t, 4, s.Writes())
}

func TestPrinterMayBeUsedFromSeveralGoroutines(t *testing.T) {
	s := screentest.New(80, 150)
	p := &printer{w: s}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 25 {
				p.Bar(fmt.Sprintf("bar %d\nof two lines", j))
				p.Line(fmt.Sprintf("line %d", i))
			}
		})
	}
	wg.Wait()
	p.Bar("")
	require.Len(t, s.Lines(), 100)
	for _, line := range s.Lines() {
		require.Regexp(t, `^line \d$`, line)
	}
}

// While another command may have its bar on the terminal, lines erase it, and no second bar
// is drawn.
func TestTheBarOfAnotherCommand(t *testing.T) {
	s := screentest.New(80, 20)
	free := false
	other := &printer{w: s}
	p := &printer{w: s, claim: func() bool { return free }}
	p.Line("before")
	p.Bar("50 %")
	require.Equal(t, []string{"before"}, s.Lines())
	other.Bar("other\nbar")
	p.Line("message")
	require.Equal(t, []string{"before", "message"}, s.Lines())
	other.Bar("other\nbar 2")
	p.WithoutBar(func() { _, _ = s.Write([]byte("result\n")) })
	require.Equal(t, []string{"before", "message", "result"}, s.Lines())
	free = true
	p.Bar("60 %")
	free = false // the printer keeps its claim
	p.Bar("70 %")
	p.Line("last")
	require.Equal(t, []string{"before", "message", "result", "last", "70 %"}, s.Lines())
}
