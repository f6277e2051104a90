package manifest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

var (
	// "-" is standard input, which exists.
	gnuStatus    = regexp.MustCompile(`(?s)^(.*): (?:FAILED open or read|FAILED|OK)\n$`)
	gnuMalformed = regexp.MustCompile(`(?m): (\d+): improperly formatted`)
)

// checkedByGNU returns the names that a tool reads from a manifest, in order and in the
// tool's spelling. It also returns the numbers of the lines that the tool calls improperly
// formatted. dir is empty.
func checkedByGNU(t *testing.T, tool, dir, manifest string) (names []string, malformed []int) {
	t.Helper()
	cmd := exec.Command(tool, "--check", "--warn", manifest)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	_ = cmd.Run() // the files do not exist, so it fails
	for status := range strings.Lines(out.String()) {
		found := gnuStatus.FindStringSubmatch(status)
		require.NotNil(t, found, "%q", status)
		names = append(names, found[1])
	}
	for _, found := range gnuMalformed.FindAllStringSubmatch(complaints.String(), -1) {
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		malformed = append(malformed, n)
	}
	return names, malformed
}

// spellingsOf returns the spellings of a name in the answers of versions of GNU's tools. It
// is escaped if necessary, or only if it contains a line feed.
func spellingsOf(name string) []string {
	escaped := string(appendName(nil, []byte(name), true))
	if escaped != name {
		escaped = `\` + escaped
	}
	if strings.Contains(name, "\n") {
		return []string{escaped}
	}
	return []string{escaped, name}
}

// checkedByUs is the same for the lines that are of one algorithm, read by Sealift.
func checkedByUs(t *testing.T, text string, digestSize int, tag string) (names []string, malformed []int) {
	t.Helper()
	r := NewReader(strings.NewReader(text), GNU, "")
	lines, numbers, err := readAll(r)
	require.NoError(t, err)
	of := map[int]Line{}
	for i, l := range lines {
		of[numbers[i]] = l
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		l, ok := of[number]
		switch {
		case ok && len(l.Digest) == digestSize && (l.Algorithm == "" || l.Algorithm == tag):
			names = append(names, l.Path)
		case ok || line[0] != '#' && strings.TrimRight(line, "\r\n") != "":
			malformed = append(malformed, number)
		}
	}
	return names, malformed
}

// Random manifests are made of pieces, and Sealift must read the same lines as sha256sum
// and its siblings. The test leaves out the intended differences: the byte order mark,
// lines of only blanks, padded tags, empty names and NULs.
func TestCheckReaderAgreesWithGNU(t *testing.T) {
	sha256sum := gnuSum(t)
	dir := t.TempDir()
	list := filepath.Join(t.TempDir(), "list")
	random := rand.New(rand.NewPCG(8, 6))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	name := func() string {
		return pick("n", "name", " lead", "*star", "  two", "a b", `a\nb`, `a\\b`, `a\q`, `a\`, "\xff", ")", " ", "*", "**", "  ", "-", "#", "\ttab", "x) = "+hexA, `\r`)
	}
	digest := func() string {
		return pick(hexA, hexA, hexB, strings.ToUpper(hexA), hexA[:32], hexB[:32], hexA[:40], hexA[1:], "g"+hexA[1:])
	}
	line := func() string {
		switch random.IntN(12) {
		case 0:
			return pick("", "# comment", "#", "text", " # no comment", "-----BEGIN PGP SIGNED MESSAGE-----", `\`, hexA, hexA+" ")
		case 1, 2:
			return pick("", "", `\`, " ") + pick("SHA256", "SHA256", "MD5", "SHA1", "SHA2-256") + pick(" (", "(", " ( ") + name() + pick(") = ", ")= ", ") =", ")  =\t", ")") + digest()
		}
		return pick("", "", "", `\`, " ", " \t", `\\`) + digest() + pick(" ", " ", "  ", "  ", " *", "\t", "\t*", "\t ", "") + name()
	}
	mixed := 0
	for range 400 {
		var text strings.Builder
		for range 1 + random.IntN(8) {
			text.WriteString(line() + pick("\n", "\n", "\n", "\r\n"))
		}
		require.NoError(t, os.WriteFile(list, []byte(text.String()), 0o600))
		for _, tool := range []struct {
			name, tag string
			size      int
		}{{"sha256sum", "SHA256", 32}, {"md5sum", "MD5", 16}} {
			wantNames, wantMalformed := checkedByGNU(t, filepath.Join(filepath.Dir(sha256sum), tool.name), dir, list)
			names, malformed := checkedByUs(t, text.String(), tool.size, tool.tag)
			require.Len(t, names, len(wantNames), "%s: %q", tool.name, text.String())
			for i, name := range names {
				require.Contains(t, spellingsOf(name), wantNames[i], "%s: %q", tool.name, text.String())
			}
			require.Equal(t, wantMalformed, malformed, "%s: %q", tool.name, text.String())
			if len(names) > 0 && len(malformed) > 0 {
				mixed++
			}
		}
	}
	require.Greater(t, mixed, 100, "the manifests are too simple to tell anything")
}

// The output of --tag and --zero, and of both together.
func TestStylesEqualThoseOfGNU(t *testing.T) {
	tool := gnuSum(t)
	dir, names := hardTree(t)
	for _, style := range []struct {
		Sums
		zero  bool
		flags []string
	}{
		{GNU, false, []string{"--text"}},
		{BSD, false, []string{"--tag"}},
		{GNU, true, []string{"--zero"}},
		{BSD, true, []string{"--tag", "--zero"}},
	} {
		cmd := exec.Command(tool, append(append(style.flags, "--"), names...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		require.NoError(t, err)
		var ours []byte
		for _, name := range names {
			ours = style.appendLine(ours, hash.SHA256, sumOf(t, filepath.Join(dir, name)), []byte(name), style.zero)
		}
		require.Equal(t, string(out), string(ours), fmt.Sprint(style.flags))
	}
}
