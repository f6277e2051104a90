package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// logFormat is a value of --log-format.
type logFormat uint8

const (
	logText logFormat = iota
	logJSON
)

var logFormats = choice.Table[logFormat]{What: "log format", Names: []string{logText: "text", logJSON: "json"}}

// fileLog is --log-file: one line for each action and message, in the order in which they
// happen. Each is written at once, so that a killed run leaves a complete log.
//
// In the text format, values that hold a space or a quote are quoted as Go does, by slog.
// Names are those of [quote.Plain], which gives back every byte and lets nothing invisible
// into a log. In the JSON format a line is an object in ASCII, and a name that is not UTF-8
// has its bytes beside it, as in all other JSON. A nil *fileLog logs nothing.
type fileLog struct {
	file   *os.File
	out    checkedWriter
	logger *slog.Logger
}

// Values of attributes that come from elsewhere.
type (
	loggedName string // of a file
	loggedText string // for people
)

// openLog opens a log for appending; without a name there is none.
func openLog(name string, format logFormat) (*fileLog, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // a nil log is a log
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666) //nolint:gosec // chosen by the user; the umask decides
	if err != nil {
		return nil, err
	}
	l := &fileLog{file: f, out: checkedWriter{w: f}}
	var handler slog.Handler = slog.NewTextHandler(&l.out, &slog.HandlerOptions{ReplaceAttr: textAttr})
	if format == logJSON {
		handler = slog.NewJSONHandler(asciiWriter{&l.out}, &slog.HandlerOptions{ReplaceAttr: jsonAttr}).
			WithAttrs([]slog.Attr{slog.Int("schema", jsonSchema)})
	}
	l.logger = slog.New(handler)
	return l, nil
}

// textAttr writes an attribute for the text format.
func textAttr(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case loggedName:
		a.Value = slog.StringValue(quote.Plain(string(v)))
	case loggedText:
		a.Value = slog.StringValue(quote.Text(string(v)))
	case []string:
		a.Value = slog.StringValue(strings.Join(v, ", "))
	case []digestJSON:
		var digests []any
		for _, d := range v {
			digests = append(digests, slog.String(d.Algorithm, d.Digest))
		}
		return slog.Group("", digests...)
	}
	return a
}

// jsonAttr writes an attribute for the JSON format, whose names are those of the reports.
func jsonAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.MessageKey:
		return slog.String("event", strings.ReplaceAll(a.Value.String(), " ", "_"))
	case "destination", "dir", "tree":
		a.Key = "target"
	}
	switch v := a.Value.Any().(type) {
	case loggedName:
		name := string(v)
		if utf8.ValidString(name) {
			return slog.String(a.Key, name)
		}
		return slog.Group("", slog.String(a.Key, name), slog.String(a.Key+"_base64", base64.StdEncoding.EncodeToString([]byte(name))))
	case loggedText:
		a.Value = slog.StringValue(string(v))
	case time.Duration:
		a.Value = slog.Float64Value(v.Seconds())
	}
	return a
}

// asciiWriter writes encoded JSON in ASCII. Each call has complete characters.
type asciiWriter struct{ w io.Writer }

func (a asciiWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(a.w, asciiJSON(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// close returns the first error of the log, so that a full disk does not make
// it end silently.
func (l *fileLog) close() error {
	if l == nil {
		return nil
	}
	err := l.file.Close()
	if l.out.err != nil {
		return l.out.err
	}
	return err
}

// line writes one line about an entry and a destination, either of which may
// be "".
func (l *fileLog) line(level slog.Level, event, path, target string, attrs ...any) {
	if l == nil {
		return
	}
	var about []any
	if path != "" {
		about = append(about, "path", loggedName(path))
	}
	if target != "" {
		about = append(about, "destination", loggedName(target))
	}
	l.logger.Log(context.Background(), level, event, append(about, attrs...)...)
}

// logError is an error of the log.
func logError(err error) error { return fmt.Errorf("--log-file: %w", fileError(err)) }

func quotedError(err error) string { return quote.Text(errorText(err)) }

// fileError is an error of a file that the user has named: the name, quoted,
// and what went wrong, without the name of a system call.
func fileError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", quote.Name(e.Path), e.Err)
	}
	return err
}
