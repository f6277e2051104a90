package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

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

// openLog opens a log for appending; without a name there is none.
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
