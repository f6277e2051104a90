package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/treetest"
)

// TestReportInABrowser opens the reports of runs with hostile names, a failure and a
// conflict. SEALIFT_PICTURES names a directory for pictures, for people to check.
func TestReportInABrowser(t *testing.T) {
	b := newBrowser(t)
	commands := []string{"copy", "verify", "repair", "compare"}
	if testing.Short() {
		commands = commands[:1]
	}
	dir := t.TempDir()
	src, first, second := filepath.Join(dir, "card"), filepath.Join(dir, "<i>first"), filepath.Join(dir, "second")
	tree := treetest.Dir{
		"clip.mov":   treetest.File(string(treetest.Pattern(20_000_000, 1))),
		"older":      treetest.File("x", treetest.Mtime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))),
		"long":       treetest.Directory(treetest.Dir{}),
		"link":       treetest.Symlink("clip.mov"),
		"SHA256SUMS": treetest.File(strings.Repeat("0", 64) + "  clip.mov\n"),
	}
	for _, name := range treetest.WildNames() {
		tree[name] = treetest.File(name)
	}
	for _, name := range []string{`<script>alert(1)<`, `"><img src=x onerror=alert(1)>`, "right\u202eleft", "\u05e9\u05dc\u05d5\u05dd", strings.Repeat("w", 250)} {
		tree[name] = treetest.File("x")
	}
	treetest.Create(t, src, tree)
	deep := filepath.Join(src, "long")
	for range 15 { // a path of 4 KB
		deep = filepath.Join(deep, strings.Repeat("d", 240))
		require.NoError(t, os.Mkdir(deep, 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(deep, "deep"), nil, 0o600))
	treetest.Create(t, second, treetest.Dir{"older": treetest.File("newer")})

	pages := map[string][]string{
		"copy":    {"--verify", "--bwlimit=20MB", src, first, "-o", second},
		"verify":  {first},
		"repair":  {first, "--from", src, "--from", second},
		"compare": {src, second},
	}
	for _, command := range commands {
		page := filepath.Join(dir, command+".html")
		code, _, stderr := whole(t.Context(), append([]string{command, "-q", "--report", page}, pages[command]...)...)
		require.NotEqual(t, 2, code, stderr)
		b.show(command, page)
		if command == "copy" { // which has left out the file that does not match
			treetest.Create(t, first, treetest.Dir{"more.sha256": tree["SHA256SUMS"]})
		}
	}
}

// TestReportOfAMergeInABrowser opens the report of a merge of which some shards are not finished.
func TestReportOfAMergeInABrowser(t *testing.T) {
	b := newBrowser(t)
	dir, plan := plannedCard(t)
	page := filepath.Join(dir, "merge.html")
	code, _, stderr := whole(t.Context(), "merge", "-q", "--report", page, plan)
	require.Equal(t, 1, code, stderr)
	b.showSizes("merge", page)
	require.Equal(t, "3", b.eval(`document.querySelectorAll("section[aria-labelledby=shards] tbody tr").length`))
	require.Equal(t, "true", b.eval(`document.querySelector("td.bar rect").getBoundingClientRect().width > 40`))
	require.Empty(t, b.complaints(page))
	b.showPaper("merge")
}

// tooWide is the first element that makes the page wider than the window, "" for none.
const tooWide = `(() => {
	const width = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth <= width) return "";
	const scrolls = Array.from(document.querySelectorAll(".scroll *"));
	const wide = Array.from(document.querySelectorAll("body *")).find(e => !scrolls.includes(e) && e.getBoundingClientRect().right > width + 0.5);
	return wide ? wide.outerHTML.slice(0, 300) : "unknown";
})()`

// show opens a page at all widths and in all colours, and makes the checks for every page.
func (b *browser) show(name, page string) {
	b.t.Helper()
	b.showSizes(name, page)

	// The filter.
	require.Equal(b.t, "false", b.eval(`document.getElementById("filter").hidden`))
	b.eval(`document.getElementById("filter-text").value = "CLIP.mov"; document.getElementById("filter").requestSubmit()`)
	rows := `document.querySelectorAll("#files tbody tr:not([hidden])").length`
	require.Equal(b.t, "1", b.eval(rows))
	require.Regexp(b.t, `^1 of \d+ shown$`, b.eval(`document.getElementById("filter-state").textContent`))
	b.eval(`document.getElementById("filter-text").value = ""; document.getElementById("filter").requestSubmit()`)
	require.Equal(b.t, b.eval(`document.querySelectorAll("#files tbody tr").length`), b.eval(rows))
	require.Empty(b.t, b.complaints(page))

	// Without the script, the page is readable, and the filter is hidden.
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.open(page)
	require.Equal(b.t, "none", b.eval(`getComputedStyle(document.getElementById("filter")).display`))
	require.NotEqual(b.t, "0", b.eval(rows))
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
	b.showPaper(name)
}

// showSizes opens a page at all widths and in all colours.
func (b *browser) showSizes(name, page string) {
	b.t.Helper()
	b.events = nil
	b.open(page)
	for _, width := range []int{400, 1200} {
		for _, colours := range []string{"light", "dark"} {
			form := name + "-" + colours + map[int]string{400: "-narrow", 1200: ""}[width]
			b.look(form, width, colours)
			require.Empty(b.t, b.eval(tooWide), "%s is wider than the window", form)
			if colours == "light" == (width == 400) {
				b.accessible(form)
			}
		}
	}
	require.Equal(b.t, "0", b.eval(`document.querySelectorAll("img, i, iframe, object, link").length`))
	require.Equal(b.t, "1", b.eval(`document.scripts.length`))
	require.Equal(b.t, "Sealift report", b.eval(`document.querySelector("meta[name=generator]").content`))
}

// showPaper prints the page that is open.
func (b *browser) showPaper(name string) {
	b.t.Helper()
	for paper, size := range map[string][2]float64{"a4": {8.27, 11.69}, "letter": {8.5, 11}} {
		pdf := b.print(name+"-"+paper, size[0], size[1])
		require.True(b.t, bytes.HasPrefix(pdf, []byte("%PDF")))
		if text, ok := pdfText(b.t, pdf); ok {
			require.Contains(b.t, text, name+".html") // at the foot
			require.Contains(b.t, text, "page 1 of ")
			require.Contains(b.t, text, "Signature")
		}
	}
}

// pdfText returns the text of a PDF; ok is false if pdftotext is not installed.
func pdfText(t testing.TB, pdf []byte) (text string, ok bool) {
	program, err := exec.LookPath("pdftotext")
	if err != nil {
		return "", false
	}
	cmd := exec.CommandContext(t.Context(), program, "-", "-")
	cmd.Stdin = bytes.NewReader(pdf)
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out), true
}

// accessible checks the page with axe-core, if that npm module is installed.
func (b *browser) accessible(form string) {
	b.t.Helper()
	if b.axe == "" {
		b.axe = axeCore()
		if b.axe == "" {
			b.axe = "none"
			b.t.Log("axe-core is not installed (npm install -g axe-core), so nothing checks whether the page is accessible")
		}
	}
	if b.axe == "none" {
		return
	}
	b.eval(b.axe + ";0")
	found := b.eval(`axe.run().then(r => JSON.stringify(r.violations.map(v => v.id + " (" + v.impact + "): " + v.nodes[0].html.slice(0, 200))))`)
	var violations []string
	require.NoError(b.t, json.Unmarshal([]byte(found), &violations))
	require.Empty(b.t, violations, form)
}

// axeCore returns the script of axe-core, "" if it is not installed.
func axeCore() string {
	root, err := exec.Command("npm", "root", "-g").Output()
	if err != nil {
		return ""
	}
	script, _ := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "axe-core", "axe.min.js"))
	return string(script)
}
