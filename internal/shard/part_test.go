package shard

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/record"
)

func md5(fill byte) hash.Digests {
	return hash.Digests{[]byte(strings.Repeat(string(rune(fill)), 16))}
}

// beginOne makes a plan of one shard with these files, and begins an attempt.
func beginOne(t testing.TB, nodes ...node) (*Store, *Attempt, *PartWriter) {
	s := makePlan(t, planOptions(1), nodes)
	a, err := s.Begin(context.Background(), 0, AttemptOptions{})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	w, err := a.NewPart()
	require.NoError(t, err)
	t.Cleanup(w.Close)
	return s, a, w
}

// finish finishes the shard, and returns what its part has.
func finish(t testing.TB, s *Store, a *Attempt, w *PartWriter) (outcomes []Outcome, dirs []Made, lines []record.Outcome) {
	var f Finished
	require.NoError(t, w.Finish(&f))
	require.NoError(t, a.Finish(f))
	state, err := s.Status(0)
	require.NoError(t, err)
	require.NoError(t, s.Part(state.Finished, PartReader{
		Outcome: func(o *Outcome) error { outcomes = append(outcomes, *o); return nil },
		Dir:     func(m *Made) error { dirs = append(dirs, *m); return nil },
		Line:    func(_ int, o *record.Outcome) error { lines = append(lines, *o); return nil },
	}))
	return outcomes, dirs, lines
}

func TestLinesAreSorted(t *testing.T) {
	for _, memory := range []int{1, partMemory} { // spilled, and in memory
		s, a, w := beginOne(t, file("a", 1))
		w.lines[0] = newSorter(a.Dir, memory)
		put := []record.Outcome{
			{Path: "sub/\xff\n\\ x", Digests: md5('1'), Size: 5, Mtime: -1, Replaced: true},
			{Path: "bad", Digests: md5('2'), Size: 1, Created: true},
			{Path: "a", Digests: md5('3'), Size: 1},
			{Path: "sub", Below: true},
			{Path: "bad", Dropped: true},
		}
		for _, o := range put {
			require.NoError(t, w.PutLine(0, o))
		}
		_, _, lines := finish(t, s, a, w)
		assert.Equal(t, []record.Outcome{put[2], put[1], put[4], put[3], put[0]}, lines)
	}
}

func TestALineThatCannotBeIsRefused(t *testing.T) {
	_, _, w := beginOne(t, file("a", 1))
	for _, l := range []record.Outcome{{}, {Path: "../x"}, {Path: "a", Size: -1}, {Path: "a", Digests: append(md5('1'), md5('2')...)}} {
		require.Error(t, w.PutLine(0, l), "%+v", l)
	}
}

// A part is text that another process can write.
func TestMalformedPartsAreRefused(t *testing.T) {
	digest := strings.Repeat("ab", 16)
	ignore := PartReader{Outcome: func(*Outcome) error { return nil }, Dir: func(*Made) error { return nil }, Line: func(int, *record.Outcome) error { return nil }}
	read := func(text string) error {
		s, a, w := beginOne(t, file("a", 1))
		require.NoError(t, w.put([]byte(text)))
		var f Finished
		require.NoError(t, w.Finish(&f))
		require.NoError(t, a.Finish(f))
		state, err := s.Status(0)
		require.NoError(t, err)
		return s.Part(state.Finished, ignore)
	}
	require.NoError(t, read("-cd 0 3 -4 "+digest+" a b\ndir 0 1 7 d\noutcome {}\n"))
	for _, text := range []string{
		"x 0 0 0 - a\n", "- 1 0 0 - a\n", "- 0 -1 0 - a\n", "- 0 0 x - a\n", "- 0 0 0 abc - a\n", "- 0 0 0 " + digest + "," + digest + " a\n",
		"- 0 0 0 - ../a\n", "- 0 0 0 - /a\n", "- 0 0 0 - \n", "- 0 0 a\n", " 0 0 0 - a\n", "dir 1 0 7 d\n", "dir 0 0 -7 d\n", "dir 0 0 7 ../d\n",
		"outcome []\n", `outcome {"target":1}` + "\n", `outcome {"target":-2}` + "\n",
	} {
		require.Error(t, read(text), text)
	}
}

func TestAChangedPartIsRefused(t *testing.T) {
	s, a, w := beginOne(t, file("a", 1))
	require.NoError(t, w.PutLine(0, record.Outcome{Path: "a"}))
	finish(t, s, a, w)
	state, err := s.Status(0)
	require.NoError(t, err)
	text, err := readPrivate(a.Dir, partName, smallFile)
	require.NoError(t, err)
	for _, changed := range []string{strings.Replace(string(text), "- a", "- b", 1), "-", string(text) + "- 0 0 0 - b\n"} {
		require.NoError(t, writeFile(a.Dir, partName, changed, (*fsys.Pending).CommitReplacing))
		require.ErrorIs(t, s.Part(state.Finished, PartReader{}), errChanged)
	}
}

func TestOutcomesAndDirectories(t *testing.T) {
	s, a, w := beginOne(t, file("a", 1))
	want := []Outcome{
		{Kind: "failed", Path: "a\xff\\b", Target: -1, Stage: "read", Cause: "input/output error <&>"},
		{Kind: "conflict", Path: "c", Target: 0, Cause: "it differs", Hint: "update"},
	}
	for _, o := range want {
		require.NoError(t, w.PutOutcome(o))
	}
	made := []Made{{Ino: 7, Path: "a"}, {New: true, Ino: 1<<64 - 1, Path: "a \n b"}, {New: true, Replaced: true, Path: "c"}}
	for _, m := range made {
		require.NoError(t, w.PutDir(m))
	}
	outcomes, dirs, _ := finish(t, s, a, w)
	assert.Equal(t, want, outcomes)
	assert.Equal(t, made, dirs)
}
