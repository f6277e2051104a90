package cli

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/usage"
)

// chartedTree has nested directories, long names, wide and combining characters, and names that
// would control a terminal.
var chartedTree = []usage.Entry{
	directory("home", 50<<30, 0),
	directory("home/ann", 28<<30, 1),
	directory("home/ann/films", 21<<30, 2),
	directory("home/bob", 15<<30, 1),
	file("home/ann/films/"+strings.Repeat("a very long name, ", 8)+"the end.mkv", 12<<30, 3),
	file("home/bob/映画の長い名前は二つの桁を取りますから途中で切られなければなりません.mkv", 8<<30, 2),
	file("home/ann/films/cafe\u0301 noir.mkv", 7<<30, 3),
	file("home/carol/deep/down/disk.img", 6<<30, 4), // its directory is not drawn
	file("home/bob/\x1b]0;owned\x07\n.iso", 1<<30, 2),
	directory("home/ann/with\nline feed", 500<<20, 2),
	file("home/bob/small", 1, 2),
	file("home/empty", 0, 1),
}

// COLUMNS larger than any terminal makes no line of that length.
func TestChartIsDrawnForAnyNumberOfColumns(t *testing.T) {
	for _, columns := range []string{"99999999999", "9223372036854775807", "70000", "1", "0", "-5", "80x"} {
		t.Setenv("COLUMNS", columns)
		r := duCommand(t, measures(chartedTree...), "--top=3")
		if longest := len(strings.Split(r.stdout, "\n")[1]); r.code != 0 || longest > 4*maxColumns {
			t.Errorf("%s columns: exit code %d, a line of %d bytes", columns, r.code, longest)
		}
	}
}

func TestChartsEqualTheGoldenFiles(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	for _, columns := range []string{"40", "80", "200"} {
		t.Setenv("COLUMNS", columns)
		r := duCommand(t, measures(append(chartedTree, file("one file", 4096, 0))...), "--top=20", "-c")
		compareGolden(t, "du_chart_"+columns, r.stdout)
		for line := range strings.Lines(r.stdout) {
			if width, _ := strconv.Atoi(columns); uniseg.StringWidth(line) > width {
				t.Errorf("%s columns: %d in %q", columns, uniseg.StringWidth(line), line)
			}
		}
	}
	t.Setenv("LC_ALL", "C")
	t.Setenv("COLUMNS", "") // 80
	r := duCommand(t, measures(chartedTree...), "--top=20", "-k")
	compareGolden(t, "du_chart_ascii", r.stdout)
}

// compareGolden compares with a file in testdata, which UPDATE_GOLDEN=1 writes.
func TestChartsOfEmptyPathsAndTinyShares(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("COLUMNS", "34")
	for name, c := range map[string]struct {
		entries []usage.Entry
		want    string
	}{
		"nothing":    {nil, ""},
		"a file":     {[]usage.Entry{file("f", 731, 0)}, "731  f\n"},
		"no bytes":   {[]usage.Entry{directory("d/", 0, 0), file("d/a", 0, 1)}, "0  d/\n0    0%          a\n"},
		"one entry":  {[]usage.Entry{directory(".", 4096, 0), file("./a", 4096, 1)}, "4.0K  .\n4.0K  100% ███████ a\n"},
		"the root":   {[]usage.Entry{directory("/", 2048, 0), directory("/usr", 1024, 1), directory("/usr/lib", 512, 2)}, "2.0K  /\n1.0K   50% ███▌    usr/\n 512   25% █▊        lib/\n"},
		"nearly all": {[]usage.Entry{directory("d", 1<<40, 0), file("d/a", 1<<40-1, 1), file("d/b", 1, 1)}, "1.0T  d\n1.0T  100% ███████ a\n   1    0% ▏       b\n"},
		// A child may come before its directory if both have the same size. A hard link may be
		// larger than its directory, which does not count a second name.
		"child first": {[]usage.Entry{directory("d", 10, 0), file("d/e/a", 5, 2), directory("d/e", 5, 1)}, "10  d\n 5   50% ████     e/\n 5   50% ████       a\n"},
		"more":        {[]usage.Entry{directory("d", 10, 0), file("d/a", 15, 1)}, "10  d\n15  100% ████████ a\n"},
		"two paths":   {[]usage.Entry{directory("d", 8, 0), file("d/a", 8, 1), directory("gone wrong", 0, 0)}, "8  d\n8  100% ████████ a\n\n0  gone wrong\n"},
	} {
		if r := duCommand(t, measures(c.entries...), "--top=3"); r.stdout != c.want || r.code != 0 {
			t.Errorf("%s: exit code %d\n%swant\n%s", name, r.code, r.stdout, c.want)
		}
	}
}

// Each chart is drawn at its last entry, because the next path may take long.
func TestAChartIsDrawnBeforeTheNextPathIsRead(t *testing.T) {
	var out bytes.Buffer
	r := newResults(&out, &printer{})
	c := &duChart{results: r, unit: unitHuman, top: 1, columns: func() int { return 40 }}
	c.entry(directory("d", 2, 0))
	c.entry(file("d/a", 1, 1))
	r.Flush()
	if want := "2  d\n1   50% #####      a\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
	r.Close()
}

func TestChartsHaveColoursOnTerminalsOnly(t *testing.T) {
	var out bytes.Buffer
	r := newResults(&out, &printer{})
	c := &duChart{results: r, unit: unitHuman, top: 1, columns: func() int { return 40 }, colour: true, unicode: true}
	c.entry(directory("d", 2, 0))
	c.entry(file("d/a", 1, 1))
	r.Close()
	if want := "2  \x1b[1md\x1b[m\n1   50% \x1b[36m█████\x1b[m      a\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
	if r := duCommand(t, measures(chartedTree...), "--top=20"); strings.Contains(r.stdout, "\x1b") {
		t.Errorf("not to a terminal: %q", r.stdout)
	}
}

func TestOnlyUTF8LocalesGetBlockCharacters(t *testing.T) {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		t.Setenv(name, "")
	}
	for _, c := range []struct {
		set  string
		want bool
	}{
		{"LANG=de_DE.UTF-8", true},
		{"LANG=C", false},
		{"LC_CTYPE=en_GB.utf8", true},
		{"LC_ALL=POSIX", false}, // LC_ALL takes precedence over LANG
		{"LC_ALL=ja_JP.eucJP", false},
	} {
		name, value, _ := strings.Cut(c.set, "=")
		t.Setenv(name, value)
		if got := isUTF8(); got != c.want {
			t.Errorf("%s: %v", c.set, got)
		}
	}
}

// Each entry has its own line. No line is wider than the terminal or contains a control
// character.
func TestNoLineOfAChartIsWiderThanTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(30, 250).Draw(t, "columns")
		c := &duChart{unit: unitHuman, top: 1000, columns: func() int { return width }, unicode: rapid.Bool().Draw(t, "unicode")}
		var out bytes.Buffer
		c.results = newResults(&out, &printer{})
		const total = 1 << 40
		c.entry(directory("p", total, 0))
		paths, sizes := []string{"p"}, []uint64{total}
		seen := map[string]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "entries") {
			i := rapid.IntRange(0, len(paths)-1).Draw(t, "in")
			name := rapid.StringMatching(`[a-c日é \x1b\n\xff~𝒳]{1,60}`).Draw(t, "name")
			path := paths[i] + "/" + name
			if seen[path] {
				continue
			}
			seen[path] = true
			size := rapid.Uint64Range(0, sizes[i]).Draw(t, "size")
			paths, sizes = append(paths, path), append(sizes, size)
			c.entry(usage.Entry{Path: path, Kind: rapid.SampledFrom([]fsys.Kind{fsys.Directory, fsys.Regular}).Draw(t, "kind"), Amount: usage.Amount{Size: size}, Depth: strings.Count(path, "/")})
		}
		c.finish(&usage.Summary{}, true)
		c.results.Close()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(paths) {
			t.Fatalf("%d lines for %d entries:\n%s", len(lines), len(paths), &out)
		}
		for _, line := range lines {
			if n := uniseg.StringWidth(line); n > width || quote.Text(line) != line {
				t.Fatalf("%d columns of %d: %q", n, width, line)
			}
		}
	})
}
