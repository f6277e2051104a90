package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/failure"
)

// jsonSchema is the version of all JSON output, which docs/schema describes. It
// grows when a field changes its meaning or is removed, not when one is added.
const jsonSchema = 1

// nameJSON is a name. JSON cannot hold one that is not UTF-8, so its bytes are added in
// base64.
type nameJSON struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
}

func newNameJSON(name string) nameJSON {
	n := nameJSON{Path: name}
	if !utf8.ValidString(name) {
		n.PathBase64 = base64.StdEncoding.EncodeToString([]byte(name))
	}
	return n
}

// failureJSON is a failure or a mismatch. Verify adds of which manifest a line is, where
// a directory has several.
type failureJSON struct {
	nameJSON
	Target    string `json:"target"` // "" where it is the source's failure
	Stage     string `json:"stage"`
	Error     string `json:"error"`
	Manifest  string `json:"manifest,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
}

func newFailureJSON(path, target string, stage failure.Stage, text string) failureJSON {
	return failureJSON{nameJSON: newNameJSON(pathOrDot(path)), Target: target, Stage: string(stage), Error: text}
}

type warningJSON struct {
	nameJSON
	Target string `json:"target"`
	Error  string `json:"error"`
}

// list makes the list of a report, which is [] in JSON and not null if there is nothing.
func list[T any](kept []T) []T { return append([]T{}, kept...) }

// printRefusal writes for a program why nothing was done.
func printRefusal(w io.Writer, err error, code int) {
	printJSON(w, struct {
		Schema   int    `json:"schema"`
		ExitCode int    `json:"exit_code"`
		Error    string `json:"error"`
	}{jsonSchema, code, err.Error()})
}

// printJSON writes v on one line, in ASCII: names must reach a program as they
// are, and a terminal without control characters. A failed write shows in the
// writer, see [checkedWriter].
func printJSON(w io.Writer, v any) {
	var sb strings.Builder
	e := json.NewEncoder(&sb)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only a NaN or a type that JSON lacks; tests encode every type
	}
	_, _ = io.WriteString(w, asciiJSON(sb.String()))
}

// asciiJSON escapes every character of encoded JSON from DEL on.
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
