package mhl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// sample is a generation as ascmhl 1.2 writes it, with a reference, upper-case digits and
// elements that are passed over.
const sample = `<?xml version="1.0" encoding="UTF-8"?>
<hashlist version="2.0" xmlns="urn:ASC:MHL:v2.0">
  <creatorinfo><creationdate>2020-01-16T09:15:00+00:00</creationdate><hostname>h</hostname><tool version="1">ascmhl</tool></creatorinfo>
  <processinfo>
    <process>in-place</process>
    <roothash><content><xxh64>8d02114c32e28cbe</xxh64></content><structure><xxh64>f557f8ca8e5a88ef</xxh64></structure></roothash>
    <ignore><pattern>.DS_Store</pattern><pattern>*.tmp</pattern></ignore>
  </processinfo>
  <hashes>
    <hash>
      <path size="5" lastmodificationdate="2020-01-15T13:00:00+00:00">Clips/a &amp; b.mov</path>
      <md5 action="original">0CC175B9C0F1B6A831C399E269772661</md5>
      <xxh64 action="verified" hashdate="2020-01-16T09:15:00+00:00"> 0ea03b369a463d9d </xxh64>
      <xxh32 action="original">00000000</xxh32>
      <previousPath>Clips/old.mov</previousPath>
      <metadata><x><path>not/this</path></x></metadata>
    </hash>
    <directoryhash>
      <path lastmodificationdate="2020-01-15T13:00:00+00:00">Clips/</path>
      <content><xxh64>4c226b42e27d7af3</xxh64></content><structure><xxh64>906faa843d591a9f</xxh64></structure>
    </directoryhash>
  </hashes>
  <references><hashlistreference><path>N/ascmhl/0001_N_2020-01-16_091500Z.mhl</path><c4>c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT</c4></hashlistreference></references>
</hashlist>
`

func TestReadGeneration(t *testing.T) {
	var listed []Listed
	g, err := ReadGeneration(strings.NewReader(sample), func(l Listed) error {
		listed = append(listed, l)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, InPlace, g.Process)
	require.Equal(t, []string{".DS_Store", "*.tmp"}, g.Ignore)
	require.Equal(t, "N/ascmhl/0001_N_2020-01-16_091500Z.mhl", g.References[0].Path)
	require.Equal(t, hash.C4.New().Sum(nil), g.References[0].C4)
	require.Len(t, listed, 2)
	require.Equal(t, "Clips/a & b.mov", listed[0].Path)
	require.Equal(t, "Clips/old.mov", listed[0].Previous)
	require.Len(t, listed[0].Digests, 2)
	require.Equal(t, "0cc175b9c0f1b6a831c399e269772661", hash.MD5.Text(listed[0].Digests[0].Sum))
	require.Equal(t, Original, listed[0].Digests[0].Action)
	require.Equal(t, "0ea03b369a463d9d", hash.XXH64.Text(listed[0].Digests[1].Sum))
	require.Equal(t, Verified, listed[0].Digests[1].Action)
	require.Equal(t, Listed{Path: "Clips", IsDir: true}, listed[1])
}

// A document that is not a generation is refused with the number of a line.
func TestReadNoGeneration(t *testing.T) {
	hashes := func(entry string) string {
		return `<hashlist version="2.0" xmlns="urn:ASC:MHL:v2.0"><hashes>` + entry + `</hashes></hashlist>`
	}
	entry := func(path, digest string) string {
		return hashes("<hash><path>" + path + "</path>" + digest + "</hash>")
	}
	digest := "<xxh64>0ea03b369a463d9d</xxh64>"
	for text, want := range map[string]string{
		"":                      "no element",
		"<a/>":                  "not an ASC MHL 2.0 document",
		"<a":                    "line 1",
		sample[:len(sample)-30]: "line",
		`<hashlist version="1.1"><hash/></hashlist>`:                   "not an ASC MHL 2.0 document",
		`<hashlist version="3.0" xmlns="urn:ASC:MHL:v2.0"></hashlist>`: `version "3.0"`,
		`<!DOCTYPE x [<!ENTITY a "b">]>` + hashes(""):                  "document type",
		hashes("<hash>" + digest + "</hash>"):                          "no path",
		entry("a", ""):                                                 `"a" has no hash of a known kind`,
		entry("a", "<sha256>00</sha256>"):                              "no hash of a known kind",
		entry("a", "<xxh64>0ea03b369a463d9</xxh64>"):                   "is not a hash of the kind xxh64",
		entry("a", "<md5>0ea03b369a463d9d</md5>"):                      "is not a hash of the kind md5",
		entry("a", "<c4>c4</c4>"):                                      "is not a hash of the kind c4",
		entry("a", "<xxh64><b/></xxh64>"):                              "where a text is expected",
		entry("/etc/passwd", digest):                                   "is not a path below the directory",
		entry("../a", digest):                                          "is not a path below the directory",
		entry("a/../../b", digest):                                     "is not a path below the directory",
		entry("a//b", digest):                                          "is not a path below the directory",
		entry("&#1;", digest):                                          "line 1",
		entry("a</path><path>b", digest):                               "an entry has two paths",
		entry(strings.Repeat("a", maxPath+1), digest):                  "a path has more than 65536 bytes",
		entry("a", strings.Repeat(digest, maxDigests+1)):               "more than 16 hashes",
		hashes(strings.Repeat("<hash>", 100)):                          "line 1",
		`<hashlist version="2.0" xmlns="urn:ASC:MHL:v2.0"><processinfo><ignore>` + strings.Repeat("<pattern>a</pattern>", maxPatterns+1) + `</ignore></processinfo></hashlist>`:                                                                               "ignore patterns",
		`<hashlist version="2.0" xmlns="urn:ASC:MHL:v2.0"><processinfo><ignore>` + strings.Repeat("<pattern>"+strings.Repeat("a", 1<<19-1)+"</pattern>", 17) + `</ignore></processinfo></hashlist>`:                                                           "more than 8388608 bytes",
		`<hashlist version="2.0" xmlns="urn:ASC:MHL:v2.0"><references>` + strings.Repeat("<hashlistreference><path>"+strings.Repeat("a", maxPath)+"</path><c4>"+hash.C4.Text(make([]byte, 64))+"</c4></hashlistreference>", 129) + `</references></hashlist>`: "more than 8388608 bytes",
		`<hashlist version="2.0" xmlns="urn:ASC:MHL:v2.0"><references><hashlistreference/></references></hashlist>`:                                                                                                                                           "no path or no C4 ID",
	} {
		_, err := ReadGeneration(strings.NewReader(text), func(Listed) error { return nil })
		require.ErrorContains(t, err, want, "%.200s", text)
	}
}

func TestChain(t *testing.T) {
	chain := []Link{
		{"0001_a & b_2020-01-16_091500Z.mhl", hash.C4.New().Sum(nil)},
		{"0002_a_2020-01-16_091500Z.mhl", bytes.Repeat([]byte{7}, 64)},
	}
	var b bytes.Buffer
	require.NoError(t, WriteChain(&b, chain))
	back, err := ReadChain(&b)
	require.NoError(t, err)
	require.Equal(t, chain, back)
}

func TestNoChain(t *testing.T) {
	c4 := "<c4>" + hash.C4.Text(make([]byte, 64)) + "</c4>"
	link := func(number int, name, c4 string) string {
		return fmt.Sprintf(`<hashlist sequencenr="%d"><path>%s</path>%s</hashlist>`, number, name, c4)
	}
	for text, want := range map[string]string{
		"":                                    "lists no generation",
		link(2, "0002_a.mhl", c4):             "generation 1 is missing",
		link(1, "0002_a.mhl", c4):             "is not the name of generation 1",
		link(1, "a.mhl", c4):                  "is not the name of generation 1",
		link(1, "../0001_a.mhl", c4):          "is not the name of generation 1",
		link(1, "0001_/a.mhl", c4):            "is not the name of generation 1",
		link(1, "0001_a.xml", c4):             "is not the name of generation 1",
		link(1, "0001_a.mhl", ""):             "no C4 ID",
		link(1, "", c4):                       "no path",
		link(1, "0001_a.mhl", "<c4>c4x</c4>"): "is not a hash of the kind c4",
		link(1, "0001_a.mhl", c4) + link(3, "0003_a.mhl", c4): "generation 2 is missing",
		link(1, "0001_a.mhl", c4) + link(1, "0001_b.mhl", c4): "generation 2 is missing",
	} {
		_, err := ReadChain(strings.NewReader(`<ascmhldirectory xmlns="urn:ASC:MHL:DIRECTORY:v2.0">` + text + "</ascmhldirectory>"))
		require.ErrorContains(t, err, want, text)
	}
}

// ascmhl writes names of directories with a backslash, where the system has them.
func TestNamesOfGenerationsHaveNoSeparator(t *testing.T) {
	for name, want := range map[string]bool{"0001_a.mhl": true, "0001_a/b.mhl": false, `0001_a\b.mhl`: filepath.Separator != '\\'} {
		_, ok := numberOf(name)
		require.Equal(t, want, ok, name)
	}
}

func FuzzReadGeneration(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(t *testing.T, document []byte) {
		_, err := ReadGeneration(bytes.NewReader(document), func(l Listed) error {
			for name := range strings.SplitSeq(l.Path, "/") {
				require.NotContains(t, []string{"", ".", ".."}, name)
			}
			require.True(t, Representable(l.Path))
			for _, d := range l.Digests {
				require.Len(t, d.Sum, d.Algorithm.Size())
			}
			return nil
		})
		_ = err
	})
}

func FuzzReadChain(f *testing.F) {
	var b bytes.Buffer
	require.NoError(f, WriteChain(&b, []Link{{"0001_a.mhl", make([]byte, 64)}}))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, document []byte) {
		chain, err := ReadChain(bytes.NewReader(document))
		if err != nil {
			return
		}
		var written bytes.Buffer
		require.NoError(t, WriteChain(&written, chain))
		back, err := ReadChain(&written)
		require.NoError(t, err)
		require.Equal(t, chain, back)
	})
}

// Renamed paths are in memory, so a history with too many bytes of them is refused.
func TestBytesOfRenamedPathsAreLimited(t *testing.T) {
	const name = "0001_tree_2020-01-16_091500Z.mhl"
	text := `<hashlist version="2.0" xmlns="urn:ASC:MHL:v2.0"><hashes><hash><path size="5">new</path><md5 action="original">0CC175B9C0F1B6A831C399E269772661</md5><previousPath>old</previousPath></hash></hashes></hashlist>`
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	var system *fsys.FS
	folder, err := system.OpenRoot(dir)
	require.NoError(t, err)
	defer folder.Close()
	sum := hash.C4.New()
	sum.Write([]byte(text))
	link := Link{Name: name, C4: sum.Sum(nil)}
	const now = "a later name" // of new
	for before, want := range map[int]string{
		maxRenamedLength - len("old"+now):     "",
		maxRenamedLength - len("old"+now) + 1: "the renamed paths of its history have more than 67108864 bytes",
	} {
		into := newRecords(extsort.TempFile)
		h := &History{renames: map[string]string{"new": now}, renamed: before}
		_, err := h.loadGeneration(folder, link, 1, into)
		require.NoError(t, into.close())
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, map[string]string{"old": now, "new": now}, h.renames)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
