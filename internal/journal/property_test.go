package journal

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// Any number of runs write a log, and each is cut anywhere. The rest has exactly the records
// that were written there, and those that a checkpoint in it covers. The same is true for a
// log with one wrong byte.
func TestPropertyLog(t *testing.T) {
	paths := nastyPaths()
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom(paths[:rapid.IntRange(1, len(paths)).Draw(t, "paths")])
		var hash func([]byte) uint64
		if rapid.Bool().Draw(t, "colliding") {
			hash = colliding
		}
		s := newScribe(t)
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			marks := []int64{s.w.Size()} // that a checkpoint can be of
			for range rapid.IntRange(0, 30).Draw(t, "records") {
				n := rapid.Int64Range(0, 1<<40).Draw(t, "n")
				switch rapid.SampledFrom([]string{"file", "file", "file", "partial", "done", "mark", "checkpoint"}).Draw(t, "record") {
				case "file":
					s.file(testFile(path.Draw(t, "path"), n))
				case "partial":
					s.partial(testPartial(path.Draw(t, "path"), n))
				case "done":
					s.done(path.Draw(t, "path"))
				case "mark":
					marks = append(marks, s.w.Size())
				case "checkpoint":
					i := rapid.IntRange(0, len(marks)-1).Draw(t, "mark")
					marks = marks[i:]
					s.checkpoint(marks[0], fsys.Time{Sec: n})
				}
				if rapid.IntRange(0, 9).Draw(t, "flush") == 0 {
					s.bytes()
				}
			}
			log := s.bytes()
			for range 10 {
				size := rapid.IntRange(0, len(log)).Draw(t, "size")
				rest := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "rest")
				if len(rest) > 0 && size < len(log) && rest[0] == log[size] {
					rest[0]++ // not what completes the line
				}
				s.requireRead(append(log[:size:size], rest...), int64(lineStart(log, size)), hash)

				at := rapid.IntRange(0, len(log)-1).Draw(t, "at")
				wrong := bytes.Clone(log)
				wrong[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
				s.requireRead(wrong, int64(lineStart(log, at)), hash)
			}

			header := bytes.IndexByte(log, '\n') + 1
			size := rapid.IntRange(header, len(log)).Draw(t, "cut")
			l, err := Read(bytes.NewReader(log[:size]), int64(size))
			require.NoError(t, err)
			s.cut(l.Size)
			s.continued()
		}
	})
}

// lineStart is where the line of byte i begins, or ends the line before.
func lineStart(log []byte, i int) int { return bytes.LastIndexByte(log[:i], '\n') + 1 }
