package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed65876f4f/sealift/internal/failure"
)

// jsonSchema is the version of all JSON output, which docs/schema describes. Increase it when a
// field changes its meaning or is removed, not when one is added.
const jsonSchema = 1

// nameJSON is a file name. JSON cannot represent a name that is not UTF-8, so that this
// name also has a field with its bytes in base64.
type nameJSON struct {
	Path string `json:"path"` // The path as text.
	// The bytes of path in Base64 (RFC 4648, with padding). Present only if path is not UTF-8; then path
	// has U+FFFD in place of invalid bytes.
	PathBase64 string `json:"path_base64,omitempty"`
}

func newNameJSON(name string) nameJSON {
	n := nameJSON{Path: name}
	if !utf8.ValidString(name) {
		n.PathBase64 = base64.StdEncoding.EncodeToString([]byte(name))
	}
	return n
}

// whereJSON is the destination or the directory of a failure; "" if it concerns none or all. Commands
// without either have nil.
type whereJSON struct {
	// The destination concerned, as it was given; empty for the source, for all destinations, or if there
	// is none. Bytes that are not UTF-8 are U+FFFD.
	Destination *string `json:"destination,omitempty"`
	// The directory concerned, as it was given; empty if there is none. Bytes that are not UTF-8 are
	// U+FFFD.
	Directory *string `json:"directory,omitempty"`
}

// whereKey is the key of the destination or directory of a failure in JSON and in the log; "" if the
// command has neither.
func whereKey(cmd *cobra.Command) string {
	switch cmd.Name() {
	case "copy", "plan", "run", "merge":
		return "destination"
	case "verify", "scrub", "compare":
		return "directory"
	}
	return ""
}

// where returns the destination or directory of a failure for JSON.
func (r *reporter) where(target string) whereJSON {
	switch whereKey(r.cmd) {
	case "destination":
		return whereJSON{Destination: &target}
	case "directory":
		return whereJSON{Directory: &target}
	}
	return whereJSON{}
}

// failureJSON is a failure or a mismatch. If a directory has several manifests, verify also
// names the one that lists the file.
type failureJSON struct {
	// The entry, relative to the source, DIR or the trees, with slashes; or the input, the output or the
	// manifest. It is . where none is concerned.
	nameJSON
	whereJSON
	Event     string `json:"event"`               // The event, as in the log. Others may be added.
	Stage     string `json:"stage"`               // The step that failed. Others may be added.
	Error     string `json:"error"`               // The cause, in English, for people. The text may change.
	Manifest  string `json:"manifest,omitempty"`  // The manifest of the line; present only if DIR has several manifests.
	Algorithm string `json:"algorithm,omitempty"` // The hash of the line; present only if DIR has several manifests.

	target string // value of whereJSON
}

func (r *reporter) newFailureJSON(event, path, target string, stage failure.Stage, text string) failureJSON {
	return failureJSON{
		nameJSON: newNameJSON(pathOrDot(path)), whereJSON: r.where(target), Event: event, Stage: string(stage), Error: text, target: target,
	}
}

type warningJSON struct {
	// The entry concerned; empty where there is none.
	nameJSON
	whereJSON
	Error string `json:"error"` // The cause, in English, for people. The text may change.
}

// list returns a copy that is never nil, so that an empty list is [] in JSON and not null.
func list[T any](kept []T) []T { return append([]T{}, kept...) }

// printRefusal prints the JSON object of a refused command.
func printRefusal(w io.Writer, err error, code int) {
	printJSON(w, struct {
		Schema   int    `json:"schema"`
		ExitCode int    `json:"exit_code"`
		Error    string `json:"error"`
	}{jsonSchema, code, err.Error()})
}

// printJSON prints v on one line in ASCII. Escapes keep names exact for programs and remove
// control characters for terminals. The [checkedWriter] of the command keeps a write error.
func printJSON(w io.Writer, v any) {
	var sb strings.Builder
	e := json.NewEncoder(&sb)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // a NaN, or a type that JSON lacks, is a programming error; tests encode every type
	}
	_, _ = io.WriteString(w, asciiJSON(sb.String()))
}

// asciiJSON escapes DEL and all characters after it in encoded JSON.
func asciiJSON(s string) string {
	var sb strings.Builder
	for _, c := range s {
		switch {
		case c < 0x7f:
			sb.WriteRune(c)
		case c <= 0xffff:
			fmt.Fprintf(&sb, `\u%04x`, c)
		default:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&sb, `\u%04x\u%04x`, high, low)
		}
	}
	return sb.String()
}
