package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// fileLog is --log-file: one line per failure, warning, conflict and action, and for
// where the time went, each written at once, so that a killed run leaves a complete
// log. Values that hold a space or a quote are quoted as Go does, by slog. Names are
// those of [quote.Plain], which gives back every byte and lets nothing invisible into
// a log: JSON would lose bytes that are not UTF-8. A nil *fileLog logs nothing.
type fileLog struct {
	file   *os.File
	out    checkedWriter
	logger *slog.Logger
}

// openLog opens a log for appending; no name, no log.
func openLog(name string) (*fileLog, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // a nil log is a log
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666) //nolint:gosec // chosen by the user; the umask decides
	if err != nil {
		return nil, err
	}
	l := &fileLog{file: f, out: checkedWriter{w: f}}
	l.logger = slog.New(slog.NewTextHandler(&l.out, nil))
	return l, nil
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

func (l *fileLog) started(o *engine.Options) {
	l.line(slog.LevelInfo, "start", "", "", "source", quote.Plain(o.Source), "dry_run", o.DryRun)
	for _, t := range o.Targets {
		l.line(slog.LevelInfo, "destination", "", t)
	}
}

func (l *fileLog) action(e engine.Event) {
	l.line(slog.LevelInfo, e.Action, e.Path, e.Target, "bytes", e.Bytes)
}

func (l *fileLog) conflict(e engine.Event, hint string) {
	l.line(slog.LevelWarn, "conflict", e.Path, e.Target, "error", quotedError(e.Err), "hint", quote.Text(hint))
}

func (l *fileLog) warning(path, target string, err error) {
	l.line(slog.LevelWarn, "warning", path, target, "error", quotedError(err))
}

func (l *fileLog) targetLost(e engine.Event) {
	l.line(slog.LevelError, "destination given up", e.Path, e.Target, "error", quotedError(e.Err))
}

func (l *fileLog) failure(title, path, target string, stage failure.Stage, err error) {
	l.line(slog.LevelError, title, path, target, "stage", string(stage), "error", quotedError(err))
}

func (l *fileLog) refused(err error) {
	l.line(slog.LevelError, "refused", "", "", "error", quotedError(err))
}

func (l *fileLog) finished(s *engine.Summary, failures, mismatches int64, o outcome) {
	attrs := []any{"exit_code", o.code()}
	if s != nil {
		attrs = append(attrs, "files", s.Files, "bytes", s.Bytes, "skipped", s.Skipped,
			"conflicts", s.Conflicts, "mismatches", mismatches, "errors", failures, "elapsed", s.Elapsed)
	}
	l.line(slog.LevelInfo, "finish", "", "", attrs...)
}

// line writes one line about an entry and a destination, either of which may
// be "".
func (l *fileLog) line(level slog.Level, message, path, target string, attrs ...any) {
	if l == nil {
		return
	}
	var about []any
	if path != "" {
		about = append(about, "path", quote.Plain(path))
	}
	if target != "" {
		about = append(about, "destination", quote.Plain(target))
	}
	l.logger.Log(context.Background(), level, message, append(about, attrs...)...)
}

func quotedError(err error) string { return quote.Text(errorText(err)) }

// fileError is an error of a file that the user has named: the name, quoted,
// and what went wrong, without the name of a system call.
func fileError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", quote.Name(e.Path), e.Err)
	}
	return err
}
