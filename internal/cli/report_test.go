package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// whole runs a command line of the real program.
func whole(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, messages bytes.Buffer
	code = Main(ctx, args, strings.NewReader(""), &out, &messages)
	return code, out.String(), messages.String()
}

func readPage(t *testing.T, file string) string {
	t.Helper()
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(page), "</html>\n"))
	return string(page)
}

var dataElement = regexp.MustCompile(`<data value="([^"]*)" data-json="([^"]*)">`)

// sameNumbers compares the numbers of a page with those of the JSON output, and returns their
// paths in JSON.
func sameNumbers(t *testing.T, page, output string) (paths []string) {
	t.Helper()
	var account any
	require.NoError(t, json.Unmarshal([]byte(output), &account))
	for _, match := range dataElement.FindAllStringSubmatch(page, -1) {
		at := account
		for key := range strings.SplitSeq(match[2], ".") {
			switch node := at.(type) {
			case map[string]any:
				require.Contains(t, node, key, match[2])
				at = node[key]
			case []any:
				i, err := strconv.Atoi(key)
				require.NoError(t, err)
				at = node[i]
			default:
				require.Failf(t, "no such number", "%s", match[2])
			}
		}
		want, ok := at.(float64)
		require.True(t, ok, match[2])
		got, err := strconv.ParseFloat(match[1], 64)
		require.NoError(t, err)
		require.InDelta(t, want, got, 1e-6, match[2])
		paths = append(paths, match[2])
	}
	return paths
}

// reportedCard makes a source, and a destination with a conflict.
func reportedCard(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	treetest.Create(t, filepath.Join(dir, "card"), treetest.Dir{
		"clip.mov": treetest.File(string(treetest.Pattern(300_000, 1))),
		"sub": treetest.Directory(treetest.Dir{
			"notes.txt": treetest.File("new", treetest.Mtime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))),
			"empty":     treetest.File(""),
		}),
	})
	treetest.Create(t, filepath.Join(dir, "second"), treetest.Dir{
		"sub": treetest.Directory(treetest.Dir{"notes.txt": treetest.File("newer and longer")}),
	})
	return dir
}

func TestReportHasTheNumbersOfTheJSON(t *testing.T) {
	dir := reportedCard(t)
	src, first, second, page := filepath.Join(dir, "card"), filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "report.html")

	code, stdout, _ := whole(t.Context(), "copy", "--json", "--verify", "--report", page, src, first, "-o", second)
	require.Equal(t, 4, code)
	text := readPage(t, page)
	paths := sameNumbers(t, text, stdout)
	require.Subset(t, paths, []string{"counts.files", "counts.conflicts", "bytes", "rate", "seconds", "exit_code", "destinations.0.counts.created", "destinations.1.manifests.0.lines"})
	require.Contains(t, text, `<h1><span aria-hidden="true">✗</span> NOT COMPLETE: `)
	require.Contains(t, text, " is complete, 1 conflict left alone at &#39;")
	require.Contains(t, text, "second&#39;; see the hint after each conflict</h1>")
	require.Contains(t, text, `1: created (verified), 2: conflict`)
	require.NotContains(t, text, "not verified")
	require.Contains(t, text, `<span class="bad-text">1 conflict</span> at <bdi class="name">`)
	require.Contains(t, text, `<td class="time">`)

	require.NoError(t, os.WriteFile(filepath.Join(first, "clip.mov"), []byte("damaged"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(first, "sub", "empty")))
	code, stdout, _ = whole(t.Context(), "verify", "--json", "--report", page, first)
	require.Equal(t, 3, code)
	text = readPage(t, page)
	paths = sameNumbers(t, text, stdout)
	require.Subset(t, paths, []string{"counts.matches", "counts.mismatches", "counts.missing"})
	require.Contains(t, text, "NOT VERIFIED: 1 mismatch, 1 file missing")
	require.Contains(t, text, `<strong class="bad-text">mismatch</strong>`)
	require.Contains(t, text, `<strong class="bad-text">missing</strong>`)
	require.Contains(t, text, `<td>matches</td>`)

	code, stdout, _ = whole(t.Context(), "compare", "--json", "--report", page, src, first)
	require.Equal(t, 3, code)
	text = readPage(t, page)
	paths = sameNumbers(t, text, stdout)
	require.Subset(t, paths, []string{"counts.files", "counts.differ"})
	require.Contains(t, text, "NOT EQUAL: 2 entries differ or are missing")
	require.Contains(t, text, `<strong class="bad-text">differs</strong>`)
	require.Contains(t, text, `<strong class="bad-text">only in A</strong>`)
	require.Contains(t, text, `<td>equal</td>`)
}

// The page of a repair says for each file whether it was right, is repaired and from where, or is still damaged
// and why each copy did not help.
func TestReportOfARepair(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	files := treetest.Dir{"a": treetest.File("a"), "b": treetest.File("bb"), "c": treetest.File("ccc"), "d": treetest.File("dddd"), "e": treetest.File("e")}
	treetest.Create(t, at("disk"), files)
	code, _, stderr := whole(t.Context(), "sum", "-q", "--manifest", at("disk/SHA256SUMS"), at("disk"))
	require.Equal(t, 0, code, stderr)
	manifest, err := os.ReadFile(at("disk/SHA256SUMS"))
	require.NoError(t, err)
	manifest = append(manifest, strings.ReplaceAll(string(manifest), "  ", "  ./")...) // other spellings of the same files
	require.NoError(t, os.WriteFile(at("disk/SHA256SUMS"), manifest, 0o600))
	require.NoError(t, errors.Join(os.Remove(at("disk/c")), os.Remove(at("disk/d"))))
	treetest.Create(t, at("first"), treetest.Dir{"a": treetest.File("a"), "c": treetest.File("x")})
	treetest.Create(t, at("second"), treetest.Dir{"b": files["b"]})

	page := at("report.html")
	for option, word := range map[string]string{"--dry-run": "repairable", "": "repaired"} {
		require.NoError(t, os.WriteFile(at("disk/a"), []byte("longer than before"), 0o600))
		require.NoError(t, errors.Join(os.RemoveAll(at("disk/b")), os.RemoveAll(at("disk/.sealift-bad-a"))))
		code, stdout, stderr := whole(t.Context(), "repair", cmp.Or(option, "--cache=drop"), "--json", "--report", page, "--title", "Disk 1", at("disk"), "--from", at("first"), "--from", at("second"))
		require.Equal(t, 3, code, stderr)
		text := readPage(t, page)
		require.Subset(t, sameNumbers(t, text, stdout), []string{"counts.files", "counts.damaged", "counts.repaired", "counts.left", "exit_code"})
		for name, want := range map[string]string{
			"a": `1</td>.*<td>mismatch, ` + word + ` from copy 1</td>`, "b": `2</td>.*<td>missing, ` + word + ` from copy 2</td>`,
			"c": `.*<td><strong class="bad-text">missing, not repaired</strong></td>`, "d": `.*missing, not repaired`, "e": `1</td>.*<td>matches</td>`,
		} {
			require.Regexp(t, `<bdi>`+name+`</bdi></td><td class="number">`+want, text)
		}
		require.Contains(t, text, "NOT REPAIRED: 2 files without a good copy")
		require.Equal(t, 5, strings.Count(text, `<td class="path">`))
		require.Contains(t, text, `<p class="title">Disk 1</p>`)
		require.Regexp(t, `(?s)no good copy \(&#39;[^&]*first&#39;: differs, too; &#39;[^&]*second&#39;: absent\).*<bdi>c</bdi>`, text)
		require.Regexp(t, `(?s)<h3>Repaired</h3>.*<dt>manifest</dt>.*<h3>Copy 1</h3>.*<h3>Copy 2</h3>`, text)
	}
	require.NoFileExists(t, at("disk/c"))
	for _, place := range []string{"disk/r.html", "first/r.html", "disk/e"} {
		code, _, stderr := whole(t.Context(), "repair", "--report", at(place), at("disk"), "--from", at("first"))
		require.Equal(t, 2, code, stderr)
	}
}

// An interrupted run writes a report, too. Its verdict names the signal.
func TestReportOfAnInterruptedRun(t *testing.T) {
	dir := t.TempDir()
	src, page := filepath.Join(dir, "card"), filepath.Join(dir, "report.html")
	treetest.Create(t, src, treetest.Dir{"clip.mov": treetest.File(string(treetest.Pattern(8<<20, 1)))})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer time.AfterFunc(300*time.Millisecond, func() { cancel(Interrupt{syscall.SIGTERM}) }).Stop()
	code, stdout, _ := whole(ctx, "copy", "--json", "--bwlimit=4MB", "--report", page, src, filepath.Join(dir, "dst"))
	require.Equal(t, 143, code)
	text := readPage(t, page)
	sameNumbers(t, text, stdout)
	require.Contains(t, text, "stopped by SIGTERM; run the same command again</h1>")
	require.Contains(t, text, `<div class="verdict bad">`)
}

// If the path of the report is refused, nothing is written.
func TestReportIsRefused(t *testing.T) {
	dir := reportedCard(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("mine.html"), []byte("<html>"), 0o600))
	require.NoError(t, os.WriteFile(at("card/report.html"), []byte("of the card"), 0o600))
	require.NoError(t, os.Mkdir(at("first"), 0o700))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"copy", "--report", at("mine.html"), at("card"), at("first")}, "it exists and is not a report of Sealift"},
		{[]string{"copy", "--report", at("card/new.html"), at("card"), at("first")}, "is inside the source"},
		{[]string{"copy", "--report", at("new/new.html"), at("card"), at("first")}, "its directory does not exist"},
		{[]string{"copy", "--report", at("first/report.html"), at("card"), at("first")}, "the source has an entry of this name"},
		{[]string{"copy", "--report", at("first"), at("card"), at("first")}, "it is a directory"},
		{[]string{"copy", "--report", "", at("card"), at("first")}, "the name is empty"},
		{[]string{"compare", "--report", at("second/new.html"), at("card"), at("second")}, "is inside B"},
		{[]string{"verify", "--report", at("mine.html"), at("second")}, "it exists and is not a report of Sealift"},
	} {
		code, stdout, stderr := whole(t.Context(), append(c.args, "--json")...)
		require.Equal(t, 2, code, c.args)
		require.Contains(t, stderr, c.want)
		require.Contains(t, stdout, `"exit_code":2`)
		names, err := os.ReadDir(at("first"))
		require.NoError(t, err)
		require.Empty(t, names)
	}
}

// The run goes on if the report cannot be written, and then fails.
func TestReportThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "new", "report.html")
	require.NoError(t, os.Mkdir(filepath.Dir(page), 0o700))
	meanwhile := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return &engine.Summary{}, os.Remove(filepath.Dir(page))
	}
	r := command(t, meanwhile, "", "copy", "--json", "--report", page, dir+"/card", dir+"/dst")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "sealift: --report '"+page+"': ")
	require.Contains(t, r.stdout, `"errors":1`)
}

// If there is no space for the list of files, the rest of the page is written.
func TestReportOnAFullDevice(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.html")
	noSpace := syscall.ENOSPC
	if runtime.GOOS == "windows" {
		noSpace = 112 // ERROR_DISK_FULL
	}
	writes := 0
	full := &fsys.FS{Fault: func(c fsys.Call) error {
		if c.Op == fsys.OpWrite {
			if writes++; writes == 1 {
				return noSpace
			}
		}
		return nil
	}}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	r, err := openReport(cmd, full, file, nil)
	require.NoError(t, err)
	r.file(&report.File{Path: "clip.mov", Size: 3})
	var stderr bytes.Buffer
	rep := &reporter{cmd: rootThat(runs{}), screen: &printer{w: &stderr}, page: r}
	rep.results = newResults(&bytes.Buffer{}, rep.screen)
	result := r.write(rep, outcome{}, func(outcome) summary { return summary{verdict: &verdict{}} })
	require.Zero(t, result.code())
	require.Contains(t, stderr.String(), "the list of files is left out")
	text := readPage(t, file)
	require.Contains(t, text, "There was no space for the list of files")
	require.NotContains(t, text, "clip.mov")
}

func TestCommandLineOfAReport(t *testing.T) {
	require.Equal(t, []string{"sealift", "copy", "--hash=sha256", "'a b'", "''", `$'\377'`}, commandLine([]string{"copy", "--hash=sha256", "a b", "", "\xff"}))
}

// BenchmarkReportOfManyFiles measures what a list of 50,000 files costs.
func BenchmarkReportOfManyFiles(b *testing.B) {
	for b.Loop() {
		cmd := &cobra.Command{}
		cmd.SetContext(b.Context())
		r, err := openReport(cmd, nil, filepath.Join(b.TempDir(), "report.html"), nil)
		require.NoError(b, err)
		r.algorithms = append(r.algorithms, "sha256")
		for i := range 50_000 {
			r.file(&report.File{Path: fmt.Sprintf("some/directory/file-%d.dat", i), Size: int64(i), Mtime: r.begun.Unix(), Digests: [][]byte{make([]byte, 32)}, Results: []string{"created"}})
		}
		require.Zero(b, r.write(&reporter{cmd: cmd}, outcome{}, func(outcome) summary { return summary{verdict: &verdict{}} }).code())
	}
}

// The texts of the user are on the page, and need a page.
func TestReportHasTheTextsOfTheUser(t *testing.T) {
	dir := reportedCard(t)
	src, dst, page := filepath.Join(dir, "card"), filepath.Join(dir, "first"), filepath.Join(dir, "report.html")
	code, _, stderr := whole(t.Context(), "copy", "--title", "Day 12", src, dst)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--title is a text of the report: add --report FILE")
	require.NoDirExists(t, filepath.Join(dst, "sub"))

	code, _, _ = whole(t.Context(), "copy", "--report", page, "--title", "Day <12>", "--operator", "M. Weber", "--note", "Reel\x1b3", src, dst)
	require.Equal(t, 0, code)
	text := readPage(t, page)
	require.Contains(t, text, `<p class="title">Day &lt;12&gt;</p>`)
	require.Regexp(t, `(?s)<h2 id="job">Job</h2>.{1,40}operator</dt><dd>M. Weber</dd>.{1,20}note</dt><dd>Reel`, text)
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "verified)", "nothing was read back")
	require.Less(t, strings.Index(text, `id="list"`), strings.Index(text, `id="files-kinds"`))
}

// A file is called verified only if the run has read it back: not one that the history leaves out, and not
// one that policy "never" leaves alone.
func TestReportCallsOnlyReadFilesVerified(t *testing.T) {
	dir := t.TempDir()
	src, dst, page := filepath.Join(dir, "card"), filepath.Join(dir, "dst"), filepath.Join(dir, "report.html")
	treetest.Create(t, src, treetest.Dir{"clip": treetest.File("1"), ".DS_Store": treetest.File("2")})
	code, _, stderr := whole(t.Context(), "copy", "--verify", "--mhl", "--report", page, src, dst)
	require.Equal(t, 0, code, stderr)
	text := readPage(t, page)
	require.Regexp(t, `<bdi>clip</bdi>.*<td>created \(verified\)</td>`, text)
	require.Regexp(t, `<bdi>\.DS_Store</bdi>.*<td>created \(not verified\)</td>`, text)

	second := filepath.Join(dir, "second")
	treetest.Create(t, second, treetest.Dir{"clip": treetest.File("other")})
	code, _, stderr = whole(t.Context(), "copy", "--verify", "--overwrite-policy", "never", "--report", page, src, second)
	require.Equal(t, 0, code, stderr)
	text = readPage(t, page)
	require.Regexp(t, `<bdi>clip</bdi>.*<td>kept \(not verified\)</td>`, text)
	require.Regexp(t, `<bdi>\.DS_Store</bdi>.*<td>created \(verified\)</td>`, text)
}
