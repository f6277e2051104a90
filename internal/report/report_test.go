package report

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/outfile"
)

// begun is when the runs of these tests begin.
var begun = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// example returns a page with all kinds of content, and the names in it.
func example(names ...string) *Page {
	files := NewFiles(begun)
	for i, name := range names {
		files.Add(&File{Path: name, Size: int64(i) * 1000, Mtime: begun.Add(-time.Duration(i) * time.Hour).Unix(), Digests: [][]byte{{0xab, byte(i)}}, Results: []string{"created"}})
	}
	samples := NewSamples([]string{"/mnt/a", "/mnt/b"})
	for i := range int64(100) {
		samples.Add(time.Duration(i+1)*FirstStep, []string{"copying", "flushing"}[i/80], []int64{i * 10_000, 200_000}, i == 99)
	}
	return &Page{
		Command: "copy", Name: "report.html", Begun: begun, Verdict: "complete: 2 files at '/mnt/a'", Good: true,
		Job:     outcome.Rows{{Label: "program", Values: []outcome.Value{outcome.Text("sealift 1.0")}}},
		Totals:  outcome.Rows{{Label: "files", Values: []outcome.Value{outcome.Number(2, "counts.files")}}},
		Trees:   []Tree{{Role: "Source", Path: "/media/card", Facts: outcome.Rows{{Label: "file system", Values: []outcome.Value{outcome.Text("exfat")}}}}},
		Samples: samples, Files: files, Problems: &Problems{},
		Shares:  []Share{{"CPU", 0.75}, {"the destination", 0.2}},
		Digests: []string{"sha256"}, AppendDigest: func(b []byte, _ int, d []byte) []byte { return hex.AppendEncode(b, d) },
	}
}

func text(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.Write(&b))
	return b.String()
}

// Names come from cards and from the network. They cannot add markup, move text, or hide
// it.
func TestHostileNamesAreHarmless(t *testing.T) {
	long := strings.Repeat("long/", 819)
	hostile := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "</style><b>", "</td></tr></table>",
		"right\u202eleft", "invalid\xff\xfe", "line\nfeed", "&amp;", "'quoted'", long + "end", "{{.Page}}", "-->", "zero\u200bwidth",
	}
	p := example(hostile...)
	p.Name = `</style><script>alert(1)</script>" "` + "\u202e"
	p.Verdict = hostile[0]
	p.Trees[0].Path = hostile[1]
	p.Trees[0].Facts[0].Values[0].Text = hostile[2]
	p.Shares[0].Place = hostile[0]
	for _, name := range hostile {
		p.Problems.Add(Problem{Kind: "failure", Path: name, Target: name, Cause: name, Note: name})
		p.Files.Mark(name, name)
	}
	page := text(t, p)
	require.Equal(t, 1, strings.Count(page, "<script"))
	require.Equal(t, 1, strings.Count(page, "</style"))
	for _, bad := range []string{"<img", "<b>", "\u202e", "\u200b", "\xff", "onerror=alert(1)>"} {
		require.False(t, strings.Contains(page, bad), bad)
	}
	contains := func(want string) { require.True(t, strings.Contains(page, want), want) }
	contains(`&lt;script&gt;alert(1)&lt;/script&gt;`)
	contains(`right\342\200\256left`)
	contains(long + "end")
	require.Equal(t, len(hostile), strings.Count(page, `<tr><td class="path">`))
}

func TestRowsAreInTheOrderOfThePaths(t *testing.T) {
	p := example("b", "a", "c")
	p.Files.Mark("b", "mismatch")
	p.Files.Mark("d", "failed")
	p.Files.Mark("d", "failed")
	var got []string
	p.Files.each(func(e *entry) { got = append(got, e.Path+" "+strings.Join(append(e.marks, e.Results...), "+")) })
	require.Equal(t, []string{"a created", "b mismatch+created", "c created", "d failed"}, got)
	page := text(t, p)
	require.Contains(t, page, `<td class="path"><bdi>b</bdi></td><td class="number">0</td><td class="time">2026-03-14 15:09:26</td><td class="digest one-line">ab00</td><td><strong class="bad-text">mismatch</strong></td>`)
}

func TestResultsAtSeveralDestinations(t *testing.T) {
	require.Equal(t, "created", resultText([]string{"created", "created"}))
	require.Equal(t, "1: created, 3: conflict", resultText([]string{"created", "", "conflict"}))
	require.Empty(t, resultText(nil))
}

// Above the limit, the page shows the problems and the totals, and names the manifest.
func TestTooManyFilesAreNotListed(t *testing.T) {
	p := example()
	for range maxFiles {
		p.Files.Add(&File{Path: "same", Size: 5, Mtime: begun.Unix()})
	}
	require.True(t, p.Files.Listed())
	p.Files.Add(&File{Path: "one more", Size: 5, Mtime: begun.Unix()})
	p.Files.Mark("late", "failed")
	require.False(t, p.Files.Listed())
	require.Zero(t, p.Files.records)
	p.Elsewhere = "The manifest lists them."
	p.Problems.Add(Problem{Kind: "failure", Path: "late", Cause: "read: I/O error"})
	page := text(t, p)
	require.Contains(t, page, "The manifest lists them.")
	require.Contains(t, page, "late")
	require.NotContains(t, page, `<table class="files"`)
	require.Contains(t, page, ">50,001<") // in the histogram
}

func TestLongNamesDoNotExceedTheMemory(t *testing.T) {
	f := NewFiles(begun)
	name := strings.Repeat("x", 4000)
	for range maxFiles {
		f.Add(&File{Path: name})
		require.LessOrEqual(t, f.kept, maxFileBytes)
	}
	require.False(t, f.Listed())
	require.Equal(t, int64(maxFiles), f.Count())
}

func TestAMillionFilesNeed16MiB(t *testing.T) {
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	l := NewFiles(begun)
	f := File{Path: strings.Repeat("directory/", 12) + "clip.mov", Size: 1 << 30, Mtime: begun.Unix(), Digests: [][]byte{make([]byte, 32)}, Results: []string{"created"}}
	for range maxFiles {
		f.Path = strings.Clone(f.Path)
		l.Add(&f)
	}
	require.True(t, l.Listed())
	require.Less(t, live()-before, int64(16<<20))
	for range 1_000_000 - maxFiles {
		l.Add(&f)
	}
	require.Less(t, live()-before, int64(1<<20))
	require.Equal(t, int64(1_000_000), l.Count())
}

func TestProblemsAreGroupedAndBounded(t *testing.T) {
	var p Problems
	for i := range 3 * maxProblemPaths {
		p.Add(Problem{Kind: "failure", Path: "path", Cause: []string{"read: I/O error", "write: no space"}[i%2]})
	}
	require.Len(t, p.Groups(), 2)
	require.Equal(t, int64(3*maxProblemPaths/2), p.Groups()[0].Count)
	require.Equal(t, int64(maxProblemPaths), p.Groups()[0].More())

	p = Problems{}
	for i := range 2 * maxGroups {
		p.Add(Problem{Kind: "warning", Path: "path", Cause: strings.Repeat("x", i)})
	}
	require.Len(t, p.Groups(), maxGroups+1)
	require.Equal(t, Group{Kind: "warning", Cause: otherCauses, Count: maxGroups}, Group{p.Groups()[maxGroups].Kind, "", p.Groups()[maxGroups].Cause, p.Groups()[maxGroups].Count, nil})
}

// For a run of any length, the picture has some hundreds of points and no byte is lost.
func TestSamplesKeepAllBytesInBoundedMemory(t *testing.T) {
	s := NewSamples([]string{"a", "b"})
	now, total := time.Duration(0), int64(0)
	for i := range int64(200_000) {
		now += FirstStep
		s.Add(now, "copying", []int64{i, 1}, false)
		total += i
	}
	s.Add(now+1, "done", []int64{0, 0}, true)
	require.LessOrEqual(t, len(s.ends), maxPoints)
	require.Greater(t, len(s.ends), maxPoints/2-2)
	sums := [2]int64{}
	for i, n := range s.bytes {
		sums[i%2] += n
	}
	require.Equal(t, [2]int64{total, 200_000}, sums)
}

func TestSpeed(t *testing.T) {
	s := NewSamples([]string{"a", "never"})
	for i := range int64(100) { // 5 s: 1 MB/s, but 0.2 MB/s from 2 s to 4 s
		n := int64(50_000)
		if i >= 40 && i < 80 {
			n = 10_000
		}
		s.Add(time.Duration(i+1)*FirstStep, "copying", []int64{n, 0}, false)
	}
	speed, ok := s.Speed(0)
	require.True(t, ok)
	require.InDelta(t, 0.68e6, speed.Average, 1)
	require.InDelta(t, 0.2e6, speed.Slowest, 1)
	require.Equal(t, time.Second, speed.Spell)
	require.Equal(t, 2*time.Second, speed.At)
	_, ok = s.Speed(1)
	require.False(t, ok)
	p := s.plots()
	require.Len(t, p, 1)
	require.Len(t, p[0].Lines, 1)
	require.Contains(t, p[0].Text, "a: 680 kB/s on average, 200 kB/s in the slowest 1.0 s (at 0:02)")
}

// Series whose speeds differ by an order of magnitude get a plot each.
func TestPlotsOfDifferentSpeeds(t *testing.T) {
	s := NewSamples([]string{"slow", "fast", "never", "faster"})
	for i := range 10 {
		s.Add(time.Duration(i+1)*FirstStep, "copying", []int64{5000, 50_000, 0, 400_000}, false)
	}
	var plots []string
	for _, p := range s.plots() {
		text := p.Y[len(p.Y)-1].Text + ":"
		for _, line := range p.Lines {
			text += " " + line.Name
		}
		plots = append(plots, text+"; "+p.Phases)
	}
	require.Equal(t, []string{"100 kB/s: slow; copying from 0.00 s to 0.50 s", "8.00 MB/s: fast faster; "}, plots)
	s = NewSamples([]string{"never"})
	for i := range 10 {
		s.Add(time.Duration(i+1)*FirstStep, "copying", []int64{0}, false)
	}
	require.Empty(t, s.plots())
	require.Empty(t, (*Samples)(nil).plots())
}

func TestScales(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 1: 1, 99: 100, 101: 150, 1.5e9: 1.5e9, 1.6e9: 2e9, 7: 8} {
		highest, step := niceScale(v)
		require.InDelta(t, want, highest, 1e-6, "%v", v)
		require.LessOrEqual(t, highest/step, 4.0)
	}
	for total := time.Millisecond; total < 1000*time.Hour; total = total*3 + 1 {
		marks := total / niceTime(total)
		require.LessOrEqual(t, marks, time.Duration(5), total)
	}
}

func TestHistogramClasses(t *testing.T) {
	f := NewFiles(begun)
	for _, size := range []int64{0, 1, 999, 1000, 20e9} {
		f.Add(&File{Path: "x", Size: size, Mtime: begun.Add(time.Hour).Unix()})
	}
	f.Add(&File{Path: "link", Kind: "symlink", Size: 3})
	bars := f.Sizes.bars()
	require.Equal(t, bar{"empty", 1, 0, 50}, bars[0])
	require.Equal(t, bar{"below 1 kB", 2, 1000, 100}, bars[1])
	require.Equal(t, bar{"10 GB and more", 1, 20e9, 50}, bars[len(bars)-1])
	require.Equal(t, []bar{{"in the future", 5, 20e9 + 2000, 100}}, f.Ages.bars())
}

// Each page has the mark by which a later report recognizes it.
func TestAReportHasItsMark(t *testing.T) {
	place, err := outfile.Open(nil, filepath.Join(t.TempDir(), "report.html"), Form)
	require.NoError(t, err)
	require.NoError(t, place.Write(example("a").Write))
	page, err := os.ReadFile(place.Path)
	require.NoError(t, err)
	require.Contains(t, string(page), "</html>")
	require.NoError(t, place.Write(example("a").Write))
}

// The example in the documentation is equal to a current report. After a change of the
// page, record it again.
func TestTheExampleIsOfThisPage(t *testing.T) {
	example, err := os.ReadFile("../../docs/report-example.html")
	require.NoError(t, err)
	for _, part := range []string{styleText, scriptText, Form.Mark} {
		require.True(t, strings.Contains(string(example), part), "docs/report-example.html is of another version")
	}
}
