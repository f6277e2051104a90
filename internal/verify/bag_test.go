package verify_test

import (
	"crypto/md5" //nolint:gosec // a bag's digest, not for security
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/verify"
)

const declaration = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"

// sumLine is a line of an MD5 manifest about a file with this content.
func sumLine(content, name string) string {
	return fmt.Sprintf("%x  %s\n", md5.Sum([]byte(content)), name)
} //nolint:gosec // as above

// writeFiles writes files below a new directory. A name that ends in a slash is a directory.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

// checkBag verifies a bag of one file with the given changes, and returns the results. The
// content "-" removes a file.
func checkBag(t *testing.T, changes map[string]string) (results []string, summary *verify.Summary) {
	t.Helper()
	files := map[string]string{
		"bagit.txt":        declaration,
		"bag-info.txt":     "Payload-Oxum: 1.1\n",
		"manifest-md5.txt": sumLine("a", "data/a"),
		"data/a":           "a",
	}
	for name, content := range changes {
		files[name] = content
		if content == "-" {
			delete(files, name)
		}
	}
	verdicts := map[verify.Verdict]string{
		verify.Missing: "missing", verify.Invalid: "invalid", verify.Warning: "warning", verify.Mismatch: "differs",
		verify.Unreadable: "refused", verify.Incomplete: "incomplete", verify.Failure: "failure",
	}
	options := &verify.Options{Paths: []string{writeFiles(t, files)}, Report: func(r verify.Result) {
		text := verdicts[r.Verdict] + " " + r.Path
		if r.Err != nil && r.Verdict != verify.Missing {
			text += ": " + r.Err.Error()
		}
		results = append(results, text)
	}}
	summary, err := verify.Run(t.Context(), options, &counters.Set{})
	require.NoError(t, err)
	return results, summary
}

func TestBagIsValidatedCompletely(t *testing.T) {
	tests := map[string]struct {
		changes map[string]string
		want    []string
	}{
		"valid": {nil, nil},
		"an empty payload is valid": {map[string]string{
			"data/a": "-", "data/": "", "manifest-md5.txt": "", "bag-info.txt": "-"}, nil},
		"a file that no manifest lists": {map[string]string{"data/d/b": "", "bag-info.txt": "-"},
			[]string{"invalid data/d/b: it is in the payload, and no payload manifest lists it"}},
		"version 0.93": {map[string]string{"bagit.txt": strings.Replace(declaration, "1.0", "0.93", 1), "bag-info.txt": "-",
			"package-info.txt": "Payload-Oxum: 1.1\n"}, nil},
		"another Payload-Oxum in version 0.95": {map[string]string{"bagit.txt": strings.Replace(declaration, "1.0", "0.95", 1),
			"bag-info.txt": "Payload-Oxum: 7.7\n", "package-info.txt": "Payload-Oxum: 1.2\n"},
			[]string{"invalid package-info.txt: Payload-Oxum is 1.2, and the payload has 1.1 (bytes.files)"}},
		"asterisks of md5sum -b": {map[string]string{
			"manifest-md5.txt": sumLine("a", "*data/a"), "tagmanifest-md5.txt": sumLine(sumLine("a", "*data/a"), "*manifest-md5.txt")}, nil},
		"tag files in ISO-8859-1": {map[string]string{"bagit.txt": strings.Replace(declaration, "UTF-8", "ISO-8859-1", 1),
			"data/ö": "", "manifest-md5.txt": sumLine("a", "data/a") + sumLine("", "data/\xf6"),
			"bag-info.txt": "Contact-Name: \xf6\nPayload-Oxum: 1.2\n", "fetch.txt": "http://localhost/b 0 data/\xf6\n"}, nil},
		"tag files in UTF-16": {map[string]string{"bagit.txt": strings.Replace(declaration, "UTF-8", "UTF-16", 1),
			"data/上": "", "manifest-md5.txt": inUTF16(sumLine("a", "data/a") + sumLine("", "data/上")),
			"bag-info.txt": inUTF16("Payload-Oxum: 1.2\n"), "fetch.txt": inUTF16("http://localhost/b 0 data/上\n")}, nil},
		"a tag file that is not in the declared encoding": {map[string]string{"bagit.txt": strings.Replace(declaration, "UTF-8", "UTF-16", 1), "bag-info.txt": "-"},
			[]string{
				"invalid manifest-md5.txt: it is not in UTF-16: it has no byte order mark, and its first character is not one of ASCII",
				"invalid data/a: it is in the payload, and no payload manifest lists it",
			}},
		"a file that one of two manifests lists": {map[string]string{"manifest-sha256.txt": ""},
			[]string{"invalid data/a: manifest-sha256.txt does not list it"}},
		"the same in version 0.97": {map[string]string{
			"manifest-sha256.txt": "", "bagit.txt": strings.Replace(declaration, "1.0", "0.97", 1)}, nil},
		"a listed file that is absent": {map[string]string{
			"manifest-md5.txt": sumLine("a", "data/a") + sumLine("", "data/b")}, []string{"missing data/b"}},
		"entries of fetch.txt are not fetched": {map[string]string{
			"manifest-md5.txt": sumLine("a", "data/a") + sumLine("", "data/b"), "fetch.txt": "http://localhost/b 0 data/b\n"},
			[]string{"missing data/b"}},
		"an entry of fetch.txt that no manifest lists": {map[string]string{"fetch.txt": "http://localhost/b - data/b\n"},
			[]string{"invalid data/b: fetch.txt lists it, and no payload manifest does"}},
		"a line of fetch.txt that is none": {map[string]string{"fetch.txt": "http://localhost/b ten data/b\n"},
			[]string{"invalid fetch.txt: line 1 is not a URL, a length and a path"}},
		"another Payload-Oxum": {map[string]string{"bag-info.txt": "Payload-Oxum: 1.2\n"},
			[]string{"invalid bag-info.txt: Payload-Oxum is 1.2, and the payload has 1.1 (bytes.files)"}},
		"an absurd Payload-Oxum": {map[string]string{"bag-info.txt": "Payload-Oxum: 9223372036854775808.1\n"},
			[]string{`invalid bag-info.txt: Payload-Oxum "9223372036854775808.1" is not two numbers with a point between them`}},
		"a tag manifest that lists no payload manifest": {map[string]string{"tagmanifest-md5.txt": sumLine(declaration, "bagit.txt")},
			[]string{"invalid manifest-md5.txt: tagmanifest-md5.txt does not list it"}},
		"a tag file that has changed": {map[string]string{
			"tagmanifest-md5.txt": sumLine(sumLine("a", "data/a"), "manifest-md5.txt") + sumLine("", "bagit.txt")},
			[]string{"differs bagit.txt"}},
		"a tag manifest that lists the payload": {map[string]string{
			"tagmanifest-md5.txt": sumLine(sumLine("a", "data/a"), "manifest-md5.txt") + sumLine("a", "data/a")},
			[]string{"invalid data/a: tagmanifest-md5.txt must not list it, because it is in the payload"}},
		"a payload manifest that lists a tag file": {map[string]string{
			"manifest-md5.txt": sumLine("a", "data/a") + sumLine(declaration, "bagit.txt")},
			[]string{"invalid bagit.txt: manifest-md5.txt must not list it, because it is not below data/"}},
		"paths that lead out": {map[string]string{
			"manifest-md5.txt": sumLine("a", "data/a") + sumLine("a", "data/../../x") + sumLine("a", "/etc/passwd") + sumLine("a", "~/x")},
			[]string{
				"refused data/../../x: refused: it leads outside the directory", "refused /etc/passwd: refused: it leads outside the directory",
				"invalid ~/x: manifest-md5.txt must not list it, because it is not below data/",
			}},
		"a path that is listed twice": {map[string]string{
			"manifest-md5.txt": sumLine("a", "data/a") + sumLine("a", "data/./a")},
			[]string{"invalid data/a: manifest-md5.txt lists it more than once"}},
		"the same in version 0.97, which does not forbid it": {map[string]string{
			"bagit.txt": strings.Replace(declaration, "1.0", "0.97", 1), "manifest-md5.txt": sumLine("a", "data/a") + sumLine("a", "data/./a")},
			[]string{"warning data/a: manifest-md5.txt lists it more than once"}},
		"no payload": {map[string]string{"data/a": "-", "manifest-md5.txt": "", "bag-info.txt": "-"},
			[]string{"invalid data: the bag has no such directory"}},
		"an unknown algorithm": {map[string]string{"manifest-sha3512.txt": "00  data/a\n"}, []string{
			"warning manifest-sha3512.txt: it is not checked, because its algorithm is not known"}},
		"a byte order mark": {map[string]string{"bagit.txt": "\xef\xbb\xbf" + declaration},
			[]string{"invalid bagit.txt: it begins with a byte order mark, which RFC 8493 forbids"}},
		"a truncated bagit.txt": {map[string]string{"bagit.txt": declaration[:18]},
			[]string{"invalid bagit.txt: there have to be two lines, BagIt-Version and Tag-File-Character-Encoding, but it has 1"}},
		"an unfinished copy": {map[string]string{"data/.sealift-journal/log.0": "x"}, []string{
			"incomplete data/.sealift-journal: a copy into this directory is unfinished or still running; if it is not running, run that copy again"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			results, summary := checkBag(t, test.changes)
			require.Equal(t, test.want, results)
			bad := 0
			for _, w := range test.want {
				if !strings.HasPrefix(w, "warning") {
					bad++
				}
			}
			require.EqualValues(t, bad, summary.Mismatches+summary.Missing+summary.Errors+summary.Incomplete)
		})
	}
}

// inUTF16 returns a text in UTF-16 with a byte order mark.
func inUTF16(text string) string {
	b := []byte("\xff\xfe")
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return string(b)
}

// A bag that Sealift cannot read is refused. That is not a mismatch.
func TestUnsupportedBagsAreRefused(t *testing.T) {
	for want, changes := range map[string]map[string]string{
		"BagIt 1.1 is not supported":                  {"bagit.txt": strings.Replace(declaration, "1.0", "1.1", 1)},
		`in "Shift_JIS", which is not supported`:      {"bagit.txt": strings.Replace(declaration, "UTF-8", "Shift_JIS", 1)},
		"manifest-sha3512.txt': its algorithm is not": {"manifest-sha3512.txt": "00  data/a\n", "manifest-md5.txt": "", "tagmanifest-md5.txt": sumLine(declaration, "bagit.txt")},
	} {
		files := map[string]string{"bagit.txt": declaration, "manifest-md5.txt": sumLine("a", "data/a"), "data/a": "a"}
		maps.Copy(files, changes)
		if files["manifest-md5.txt"] == "" {
			delete(files, "manifest-md5.txt")
		}
		dir := writeFiles(t, files)
		_, err := verify.Run(t.Context(), &verify.Options{Paths: []string{dir}, Report: func(verify.Result) {}}, &counters.Set{})
		var refused *failure.RefusedError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, want)
		if list := filepath.Join(dir, "manifest-md5.txt"); files["manifest-md5.txt"] != "" { // also where only its lines are checked
			_, err = verify.Run(t.Context(), &verify.Options{Paths: []string{list}, Report: func(verify.Result) {}}, &counters.Set{})
			require.ErrorContains(t, err, want)
		}
	}
}

// A manifest in place of the directory, and --manifest, check only lines. They read them in
// the encoding of the bag, too.
func TestLinesOfABagAreReadInItsEncoding(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"bagit.txt":        strings.Replace(declaration, "UTF-8", "ISO-8859-1", 1),
		"manifest-md5.txt": sumLine("a", "data/\xf6"), "data/ö": "a", "data/unlisted": "",
	})
	for _, o := range []verify.Options{
		{Paths: []string{filepath.Join(dir, "manifest-md5.txt")}},
		{Paths: []string{dir}, Manifest: "manifest-md5.txt"},
		{Paths: []string{dir}, Manifest: filepath.Join(dir, "manifest-md5.txt")},
	} {
		o.Report = func(verify.Result) {}
		summary, err := verify.Run(t.Context(), &o, &counters.Set{})
		require.NoError(t, err)
		require.EqualValues(t, 1, summary.Matches)
		require.Zero(t, summary.Mismatches+summary.Missing)
	}
}

// A name in a manifest is decoded as in the RFC, then with only its line breaks decoded, as
// bagit.py writes it, and then taken unchanged. The line means the first file that exists.
func TestBagNamesHaveThreeSpellings(t *testing.T) {
	if os.PathSeparator == '\\' {
		t.Skip("Windows has no such names")
	}
	for listed, file := range map[string]string{
		"data/50%25\r":       "data/50%",
		"data/50%25":         "data/50%25",
		"data/%0Ax%25":       "data/\nx%",
		"data/x%250A%0d":     "data/x%250A\r",
		"data/as it is %0A%": "data/as it is %0A%",
	} {
		results, summary := checkBag(t, map[string]string{
			"data/a": "-", file: "a", "manifest-md5.txt": sumLine("a", listed)})
		require.EqualValues(t, 1, summary.Matches, "%q for %q: %q", listed, file, results)
		require.Zero(t, summary.Mismatches, "%q for %q: %q", listed, file, results)
	}
}
