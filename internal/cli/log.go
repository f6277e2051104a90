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
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// logFormat is a value of --log-format.
type logFormat uint8

const (
	logText logFormat = iota
	logJSON
)

var logFormats = choice.Table[logFormat]{What: "log format", Names: []string{logText: "text", logJSON: "json"}}

// fileLog writes the file of --log-file: one line for each change and message, in the order of
// the events. It writes each line immediately, so that a killed run leaves only complete lines.
//
// In the text format, slog quotes values with spaces or quotes in the syntax of Go. File names
// are those of [quote.Plain], which represents every byte and escapes invisible characters. In
// the JSON format each line is one object in ASCII. A name that is not UTF-8 has a second field
// with its bytes in base64, as in all JSON output. A nil *fileLog logs nothing.
type fileLog struct {
	file   *logWriter
	out    checkedWriter
	logger *slog.Logger
	where  string // key of a destination or directory
}

// Types of attribute values that need quoting.
type (
	loggedName string // a file name
	loggedText string // a message
)

// logWriter is the file of a log. If that is a pipe whose reader does not read, the end of ctx ends
// each write after a second.
type logWriter struct {
	*os.File
	ctx     context.Context //nolint:containedctx // io.Writer has none
	release func() bool     // ends the watch of ctx
}

// Write implements io.Writer.
func (w *logWriter) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		w.limit()
	}
	return w.File.Write(p)
}

// limit ends the present write and those that follow in a second. It has an effect only on a pipe or
// terminal.
func (w *logWriter) limit() { _ = w.SetWriteDeadline(time.Now().Add(startTime)) }

func (w *logWriter) Close() error {
	w.release()
	return w.File.Close()
}

// openLog opens the log for appending, and creates it. If name is empty, it returns nil.
func openLog(ctx context.Context, name string, format logFormat, where string) (*fileLog, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // a nil *fileLog logs nothing
	}
	f, err := fsys.OpenTrusted(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666) // the umask decides
	if err != nil {
		return nil, err
	}
	w := &logWriter{File: f, ctx: ctx}
	w.release = context.AfterFunc(ctx, w.limit)
	l := &fileLog{file: w, out: checkedWriter{w: w}, where: where}
	var handler slog.Handler = slog.NewTextHandler(&l.out, &slog.HandlerOptions{ReplaceAttr: textAttr})
	if format == logJSON {
		handler = slog.NewJSONHandler(asciiWriter{&l.out}, &slog.HandlerOptions{ReplaceAttr: jsonAttr}).
			WithAttrs([]slog.Attr{slog.Int("schema", jsonSchema)})
	}
	l.logger = slog.New(handler)
	return l, nil
}

// eventAttr returns the attribute with the event, which is one word.
func eventAttr(a slog.Attr) slog.Attr { return slog.String("event", oneWord(a.Value.String())) }

// oneWord returns words for people as one word for programs: "up to date" is "up_to_date".
func oneWord(words string) string { return strings.ReplaceAll(words, " ", "_") }

// textAttr converts an attribute for the text format.
func textAttr(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.MessageKey {
		return eventAttr(a)
	}
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

// jsonAttr converts an attribute for the JSON format, which has the field names of --json.
func jsonAttr(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.MessageKey {
		return eventAttr(a)
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

// asciiWriter escapes all other characters in encoded JSON than ASCII. Each Write must have complete
// characters.
type asciiWriter struct{ w io.Writer }

func (a asciiWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(a.w, asciiJSON(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// close closes the log and returns its first error, so that a log that a full disk cut short
// is reported.
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

// line writes one line about an event. path and target, the entry and the destination
// concerned, may be "".
func (l *fileLog) line(level slog.Level, event, path, target string, attrs ...any) {
	if l == nil {
		return
	}
	var about []any
	if path != "" {
		about = append(about, "path", loggedName(path))
	}
	if target != "" {
		about = append(about, l.where, loggedName(target))
	}
	l.logger.Log(context.Background(), level, event, append(about, attrs...)...)
}

// logError returns the message for an error of the log.
func logError(err error) error { return fmt.Errorf("--log-file: %w", fileError(err)) }

func quotedError(err error) string { return quote.Text(errorText(err)) }

// fileError rewords an error of a file that the user has named: the quoted name and the cause,
// without the system call.
func fileError(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s: its reader does not read", quote.Name(e.Path))
	}
	return fmt.Errorf("%s: %w", quote.Name(e.Path), e.Err)
}
