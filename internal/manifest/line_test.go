package manifest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hardNames are names that a wrong parser would lose first. Each has the part of its line
// after the digest and a possible backslash.
var hardNames = []struct {
	name, path, written string
	escaped             bool
}{
	{"plain", "a.txt", "a.txt", false},
	{"below a directory", "a/b", "a/b", false},
	{"line feed", "a\nb", `a\nb`, true},
	{"line feed last", "a\n", `a\n`, true},
	{"carriage return", "a\rb", `a\rb`, true},
	{"carriage return last", "a\r", `a\r`, true},
	{"backslash", `a\b`, `a\\b`, true},
	{"backslash and n", `a\nb`, `a\\nb`, true},
	{"all three", "\\\n\r", `\\\n\r`, true},
	{"leading space", " a", " a", false},
	{"trailing space", "a ", "a ", false},
	{"only spaces", "  ", "  ", false},
	{"tab", "\ta\t", "\ta\t", false},
	{"leading asterisk", "*a", "*a", false},
	{"leading hash", "#a", "#a", false},
	{"two spaces inside", "a  b", "a  b", false},
	{"invalid UTF-8", "\xff\xfe\x80", "\xff\xfe\x80", false},
	{"control characters", "\x01\x1b[2J\x7f", "\x01\x1b[2J\x7f", false},
	{"like a tagged line", "SHA256 (x) = " + hexB, "SHA256 (x) = " + hexB, false},
	{"like a line", hexB + "  x", hexB + "  x", false},
	{"255 bytes", strings.Repeat("n", 255), strings.Repeat("n", 255), false},
}

func TestAppendLine(t *testing.T) {
	digest := digestOf(t, hexA)
	for _, tt := range hardNames {
		t.Run(tt.name, func(t *testing.T) {
			want := hexA + "  " + tt.written + "\n"
			if tt.escaped {
				want = `\` + want
			}
			require.Equal(t, "before"+want, string(appendLine([]byte("before"), digest, tt.path)))
		})
	}
}

func TestParseLineForms(t *testing.T) {
	for _, tt := range hardNames {
		prefix := ""
		if tt.escaped {
			prefix = `\`
		}
		for _, form := range []struct{ line, algorithm string }{
			{prefix + hexA + "  " + tt.written, ""},
			{prefix + hexA + " *" + tt.written, ""},
			{prefix + strings.ToUpper(hexA) + "  " + tt.written, ""},
			{" \t" + prefix + hexA + "\t " + tt.written, ""},
			{prefix + "SHA256 (" + tt.written + ") = " + hexA, "SHA256"},
			{prefix + "SHA2-256(" + tt.written + ")= " + strings.ToUpper(hexA), "SHA2-256"},
		} {
			for _, end := range []string{"", "\r"} {
				got, err := parseLine([]byte(form.line + end))
				require.NoError(t, err, "%q", form.line+end)
				require.Equal(t, Line{Path: tt.path, Digest: digestOf(t, hexA), Algorithm: form.algorithm}, got, "%q", form.line+end)
			}
		}
	}
}

func TestParseLineDigests(t *testing.T) {
	for _, n := range []int{32, 40, 64, 128} {
		digits := strings.Repeat("aB", n/2)
		want := bytes.Repeat([]byte{0xab}, n/2)
		got, err := parseLine([]byte(digits + "  x"))
		require.NoError(t, err)
		require.Equal(t, want, got.Digest)
		got, err = parseLine([]byte("SHA2-512/256 (x) = " + digits))
		require.NoError(t, err)
		require.Equal(t, Line{Path: "x", Digest: want, Algorithm: "SHA2-512/256"}, got)
	}
}

func TestParseLineStripsOneCarriageReturn(t *testing.T) {
	got, err := parseLine([]byte(hexA + "  a\r\r"))
	require.NoError(t, err)
	require.Equal(t, "a\r", got.Path)
}

func TestParseLineRefuses(t *testing.T) {
	for _, line := range []string{"", "\r", "   ", " \t\r", "#", "# comment", "#" + hexA + "  x", "#\r"} {
		_, err := parseLine([]byte(line))
		require.ErrorIs(t, err, errNothing, "%q", line)
	}
	for name, line := range map[string]string{
		"no name":                  hexA,
		"one space":                hexA + " ",
		"empty name":               hexA + "  ",
		"empty name, CR":           hexA + "  \r",
		"single space":             hexA + " name",
		"single space, one letter": hexA + " n",
		"no space":                 hexA + "name",
		"30 digits":                hexA[:30] + "  x",
		"63 digits":                hexA[:63] + "  x",
		"letter among digits":      "g" + hexA[1:] + "  x",
		"NUL":                      hexA + "  a\x00b",
		"NUL, tagged":              "SHA256 (a\x00) = " + hexA,
		"line feed":                hexA + "  a\nb",
		"unknown escape":           `\` + hexA + `  a\tb`,
		"octal escape":             `\` + hexA + `  a\012`,
		"escape of NUL":            `\` + hexA + `  a\0`,
		"lone backslash":           `\` + hexA + `  a\`,
		"only a backslash":         `\`,
		"two backslashes":          `\\` + hexA + "  a",
		"comment after blank":      " # comment",
		"tag of hex":               "ab" + hexA + " (x) = " + hexA,
		"tag alone":                "SHA256",
		"tag, no parenthesis":      "SHA256 x = " + hexA,
		"tag, not closed":          "SHA256 (x = " + hexA,
		"tag, empty name":          "SHA256 () = " + hexA,
		"tag, no equals sign":      "SHA256 (x) " + hexA,
		"tag, no digest":           "SHA256 (x) = ",
		"tag, 63 digits":           "SHA256 (x) = " + hexA[1:],
		"tag, 30 digits":           "CRC (x) = " + hexA[:30],
		"tag, blank at the end":    "SHA256 (x) = " + hexA + " ",
		"tag starts with a digit":  "5SHA (x) = " + hexA,
		"no tag":                   "(x) = " + hexA,
		"tag, unknown escape":      `\SHA256 (a\b) = ` + hexA,
		"hashdeep":                 "0,d41d8cd98f00b204e9800998ecf8427e," + hexA + ",x",
		"text":                     "The quick brown fox",
	} {
		_, err := parseLine([]byte(line))
		require.ErrorIs(t, err, errMalformed, name)
	}
}

func TestParseLineSharesNothing(t *testing.T) {
	buf := []byte("SHA256 (x) = " + hexA)
	got, err := parseLine(buf)
	require.NoError(t, err)
	clear(buf)
	require.Equal(t, Line{Path: "x", Digest: digestOf(t, hexA), Algorithm: "SHA256"}, got)
}
