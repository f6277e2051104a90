// Package scrub has the memory of sealift scrub. The state is a file with one line for each file that
// was checked. The schedule orders the files of a run. The package reads no file of the tree.
//
// The state is hostile input: at worst, a wrong one changes which files are checked first, and how a
// damaged one is named.
package scrub

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/outfile"
)

// Form recognizes a state. The mark is its first line.
var Form = outfile.Form{Name: "a state of sealift scrub", Mark: "# sealift scrub state 1\n"}

// columns is the second line of a state.
const columns = "# result, last check, last good check, size and mtime at the last good check, path\n"

// runPrefix begins the third line, which has the time when the last run began.
const runPrefix = "# run "

// Result is the result of the last check of a file.
type Result uint8

// The results. Those after Good are damage, except that Unreadable may have another cause.
const (
	Good       Result = iota
	Rotted            // The content differs; size and mtime are those of the last good check.
	Changed           // The content differs, and so do size or mtime.
	Differs           // The content differs, and there was no good check.
	Missing           // The file does not exist.
	Unreadable        // The file could not be read.
)

var resultNames = []string{"good", "rotted", "changed", "differs", "missing", "unreadable"}

func (r Result) String() string { return resultNames[r] }

// Entry is what the state has about a file. Times are seconds since 1970, 0 for never. The zero
// value is that of a file that was never checked.
type Entry struct {
	Result  Result
	Checked int64     // time of the last check
	Good    int64     // time of the last good check
	Size    int64     // size in bytes at the last good check
	Mtime   fsys.Time // mtime at the last good check
}

// Differing returns the result for a file whose content differs, from its size and mtime now.
func (e Entry) Differing(size int64, mtime fsys.Time) Result {
	switch {
	case e.Good == 0:
		return Differs
	case e.Size == size && e.Mtime == mtime:
		return Rotted
	}
	return Changed
}

// After returns the entry after a check at a time. Size and mtime matter only for Good.
func (e Entry) After(now int64, result Result, size int64, mtime fsys.Time) Entry {
	e.Result, e.Checked = result, now
	if result == Good {
		e.Good, e.Size, e.Mtime = now, size, mtime
	}
	return e
}

// append appends the fields of a line before the path.
func (e Entry) append(dst []byte) []byte {
	dst = append(dst, e.Result.String()...)
	dst = appendTime(append(dst, ' '), e.Checked)
	if e.Good == 0 {
		return append(dst, " - - -"...)
	}
	dst = appendTime(append(dst, ' '), e.Good)
	dst = strconv.AppendInt(append(dst, ' '), e.Size, 10)
	return e.Mtime.AppendDecimal(append(dst, ' '))
}

func appendTime(dst []byte, seconds int64) []byte {
	return time.Unix(seconds, 0).UTC().AppendFormat(dst, time.RFC3339)
}

// parseEntry reads what append has written.
func parseEntry(text string) (e Entry, ok bool) {
	f := strings.Split(text, " ")
	if len(f) != 5 {
		return e, false
	}
	result := slices.Index(resultNames, f[0])
	checked, ok := parseTime(f[1])
	if result < 0 || !ok {
		return e, false
	}
	e.Result, e.Checked = Result(result), checked
	if f[2] == "-" && f[3] == "-" && f[4] == "-" && e.Result != Good {
		return e, true
	}
	var err error
	var okGood, okMtime bool
	e.Good, okGood = parseTime(f[2])
	e.Mtime, okMtime = fsys.ParseTime(f[4])
	e.Size, err = strconv.ParseInt(f[3], 10, 64)
	return e, okGood && okMtime && err == nil && e.Size >= 0
}

// parseTime reads a time after 1970.
func parseTime(text string) (seconds int64, ok bool) {
	t, err := time.Parse(time.RFC3339, text)
	return t.Unix(), err == nil && t.Unix() > 0
}

// Clock returns a time as a state can store it: from 1970-01-01 00:00:01 to the year 9999.
func Clock(t time.Time) int64 { return min(max(t.Unix(), 1), 253402300799) }

// Paths are escaped as in manifests: the line then begins with a backslash.

// appendLine appends the line of a file.
func appendLine(dst []byte, path string, e []byte) []byte {
	escaped := path
	if strings.ContainsAny(path, "\\\n\r") {
		dst = append(dst, '\\')
		escaped = manifest.Escape(path)
	}
	dst = append(dst, e...)
	dst = append(dst, "  "...)
	return append(append(dst, escaped...), '\n')
}

// parseLine reads what appendLine has written, without the line feed.
func parseLine(line string) (path string, e Entry, ok bool) {
	rest, escaped := strings.CutPrefix(line, `\`)
	fields, path, _ := strings.Cut(rest, "  ")
	if escaped {
		if path, ok = manifest.Unescape(path); !ok {
			return "", e, false
		}
	} else if strings.ContainsAny(path, "\\\r") {
		return "", e, false
	}
	e, ok = parseEntry(fields)
	return path, e, ok && path != "" && !strings.Contains(path, "\x00")
}

// maxLine limits a line of a state, in bytes. Most systems limit a path to 4 KiB.
const maxLine = 1 << 20

// Content is the summary of a state that was read.
type Content struct {
	Run       int64 // time when the last run began; 0 if that is unknown
	Malformed int64 // number of lines that are not well-formed
}

// Read reads a state and calls each for its lines. Malformed lines are counted: their files are
// checked as if they were new. The last line about a path counts.
func Read(in io.Reader, each func(path string, e Entry) error) (c Content, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for number := 0; lines.Scan(); number++ {
		line := lines.Text()
		if number == 0 && line+"\n" != Form.Mark {
			return c, fmt.Errorf("its first line is not %q; it has another version", strings.TrimSpace(Form.Mark))
		}
		if text, isRun := strings.CutPrefix(line, runPrefix); isRun {
			c.Run, _ = parseTime(text)
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		path, e, ok := parseLine(line)
		if !ok {
			c.Malformed++
			continue
		}
		if err := each(path, e); err != nil {
			return c, err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return c, fmt.Errorf("it has a line that is longer than %d MiB", maxLine>>20)
	} else if err != nil {
		return c, err
	}
	return c, nil
}

// Stats describes the files of a state.
type Stats struct {
	Checked int64 // files that were checked, now or earlier
	Oldest  int64 // time of the oldest check; 0 if there is none
	Overdue int64 // files whose last check is older than the limit
	Sized   int64 // files whose size is known
	Bytes   int64 // size of these files
}

// add counts an entry. A check after now counts as none, one before overdue is too old.
func (s *Stats) add(e Entry, now, overdue int64) {
	if e.Checked <= now {
		s.Checked++
		if s.Oldest == 0 || e.Checked < s.Oldest {
			s.Oldest = e.Checked
		}
		if e.Checked < overdue {
			s.Overdue++
		}
	}
	if e.Good != 0 {
		s.Sized++
		s.Bytes += e.Size
	}
}

// writeHead writes the lines before those of the files.
func writeHead(w io.Writer, run int64) error {
	head := append([]byte(Form.Mark+columns+runPrefix), appendTime(nil, run)...)
	_, err := w.Write(append(head, '\n'))
	return err
}
