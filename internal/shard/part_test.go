package shard

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

func md5(fill byte) hash.Digests {
	return hash.Digests{[]byte(strings.Repeat(string(rune(fill)), 16))}
}

// beginOne makes a plan of one shard with these files, and begins an attempt.
func beginOne(t testing.TB, nodes ...node) (*Store, *Attempt) {
	s := makePlan(t, planOptions(1), nodes)
	a, err := s.Begin(context.Background(), 0, AttemptOptions{})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return s, a
}

func readLines(s *Store, f *Finished) (lines []Line, err error) {
	r, err := s.OpenLines(f, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, *l)
	}
}

func finish(t testing.TB, s *Store, a *Attempt, parts ...Part) *Finished {
	require.NoError(t, a.Finish(Finished{Parts: parts}))
	state, err := s.Status(0)
	require.NoError(t, err)
	return state.Finished
}

func TestLinesAreSortedAndJoined(t *testing.T) {
	for _, memory := range []int{1, partMemory} { // spilled, and in memory
		s, a := beginOne(t, file("a", 1))
		w := a.NewLines(0)
		defer w.Close()
		w.sorter = newSorter(a.Dir, memory)
		put := func(l Line) { require.NoError(t, w.Put(l)) }
		put(Line{Path: "sub/\xff\n\\ x", Digests: md5('1'), Size: 5, Mtime: -1, Replaced: true})
		put(Line{Path: "b", Failed: true})
		put(Line{Path: "b", Dropped: true})
		put(Line{Path: "bad", Digests: md5('2'), Size: 1, Created: true})
		put(Line{Path: "a", Digests: md5('3'), Size: 1, Resumed: true})
		put(Line{Path: "sub", Below: true})
		require.NoError(t, w.Each(func(*Line) error { return nil }))
		put(Line{Path: "bad", Dropped: true}) // after the lines were read back
		part, err := w.Finish()
		require.NoError(t, err)
		lines, err := readLines(s, finish(t, s, a, part))
		require.NoError(t, err)
		assert.Equal(t, []Line{
			{Path: "a", Digests: md5('3'), Size: 1, Resumed: true},
			{Path: "b", Failed: true, Dropped: true},
			{Path: "bad", Size: 1, Created: true, Dropped: true},
			{Path: "sub", Below: true},
			{Path: "sub/\xff\n\\ x", Digests: md5('1'), Size: 5, Mtime: -1, Replaced: true},
		}, lines)
	}
}

func TestALineThatCannotBeIsRefused(t *testing.T) {
	_, a := beginOne(t, file("a", 1))
	w := a.NewLines(0)
	defer w.Close()
	for _, l := range []Line{{}, {Path: "../x"}, {Path: "a", Size: -1}, {Path: "a", Digests: append(md5('1'), md5('2')...)}} {
		require.Error(t, w.Put(l), "%+v", l)
	}
}

func textOf(text string) func(*planFile) error {
	return func(f *planFile) error {
		_, err := f.Write([]byte(text))
		return err
	}
}

// aPart returns a plan with a finished shard that has a part with this text.
func aPart(t testing.TB, text string) (*Store, *Finished, *Attempt) {
	s, a := beginOne(t, file("a", 1))
	part, err := a.writePart(linesName(0), linesHead(s.Plan.ID, 0, 1, 0), textOf(text))
	require.NoError(t, err)
	return s, finish(t, s, a, part), a
}

func TestMalformedPartsAreRefused(t *testing.T) {
	digest := strings.Repeat("ab", 16)
	for name, test := range map[string]struct {
		text string
		err  string
	}{
		"order":             {"- 0 0 - b\n- 0 0 - a\n", "ascending"},
		"twice":             {"- 0 0 - a\n- 0 0 - a\n", "ascending"},
		"flags":             {"x 0 0 - a\n", "flags"},
		"order of flags":    {"rc 0 0 - a\n", "flags"},
		"no flags":          {" 0 0 - a\n", "flags"},
		"size":              {"- -1 0 - a\n", "number"},
		"time":              {"- 0 01 - a\n", "number"},
		"digest":            {"- 0 0 abc - a\n", "digest"},
		"too many digests":  {"- 0 0 " + digest + "," + digest + " a\n", "digest"},
		"leaves the tree":   {"- 0 0 - ../a\n", "path"},
		"absolute":          {"- 0 0 - /a\n", "path"},
		"no path":           {"- 0 0 - \n", "path"},
		"spelling":          {"- 0 0 - \\x\n", "path"},
		"too few fields":    {"- 0 a\n", "fields"},
		"after its end":     {"end\n- 0 0 - a\n", "follows"},
		"digest upper case": {"- 0 0 " + strings.ToUpper(digest) + " a\n", "digest"},
	} {
		t.Run(name, func(t *testing.T) {
			s, done, _ := aPart(t, test.text)
			_, err := readLines(s, done)
			require.ErrorContains(t, err, test.err)
		})
	}
	s, done, _ := aPart(t, "cu 3 -4 "+digest+" a b\n")
	lines, err := readLines(s, done)
	require.NoError(t, err)
	require.Len(t, lines, 1)
}

func TestAChangedPartIsRefused(t *testing.T) {
	s, done, a := aPart(t, "- 0 0 - a\n")
	text, err := readPrivate(a.Dir, linesName(0), smallFile)
	require.NoError(t, err)
	for _, changed := range []string{strings.Replace(string(text), "- a", "- b", 1), "seali", string(text) + "- 0 0 - b\n"} {
		require.NoError(t, writeFile(a.Dir, linesName(0), changed))
		_, err = readLines(s, done)
		require.ErrorIs(t, err, errChanged)
	}
	_, err = s.OpenLines(&Finished{Shard: 0, Attempt: 1}, 0)
	require.ErrorContains(t, err, "does not have it")
}

func TestThePartOfAnotherAttemptIsRefused(t *testing.T) {
	s, done, a := aPart(t, "- 0 0 - a\n")
	part, err := a.writePart(linesName(0), linesHead(s.Plan.ID, 0, 2, 0), textOf(""))
	require.NoError(t, err)
	done.Parts[0] = part
	_, err = readLines(s, done)
	require.ErrorContains(t, err, "not of this plan")
}

func TestOutcomes(t *testing.T) {
	type counts struct {
		Files int64 `json:"files"`
	}
	s, a := beginOne(t, file("a", 1))
	w, err := a.NewOutcomes()
	require.NoError(t, err)
	defer w.Close()
	want := []Outcome{
		{Kind: OutcomeFailed, Path: "a\xff\\b", Target: -1, Stage: "read", Cause: "input/output error <&>"},
		{Kind: OutcomeConflict, Path: "c", Target: 0, Cause: "it differs", Hint: "update"},
	}
	for _, o := range want {
		require.NoError(t, w.Put(o))
	}
	part, err := w.Finish(counts{7})
	require.NoError(t, err)
	done := finish(t, s, a, part)
	var have counts
	r, err := s.OpenOutcomes(done, &have)
	require.NoError(t, err)
	defer r.Close()
	assert.Equal(t, counts{7}, have)
	for _, o := range want {
		next, err := r.Next()
		require.NoError(t, err)
		assert.Equal(t, o, *next)
	}
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
	_, err = s.OpenOutcomes(done, &struct{}{})
	require.ErrorContains(t, err, "unknown field")
}

func TestMalformedOutcomesAreRefused(t *testing.T) {
	for text, cause := range map[string]string{
		`{"kind":"good","path":"a","target":0,"stage":"","cause":"","hint":""}`:         "unknown word",
		`{"kind":"failed","path":"../a","target":0,"stage":"","cause":"","hint":""}`:    "path",
		`{"kind":"failed","path":"a","target":1,"stage":"","cause":"","hint":""}`:       "number",
		`{"kind":"failed","path":"a","target":-2,"stage":"","cause":"","hint":""}`:      "number",
		`{"kind":"failed", "path":"a","target":0,"stage":"","cause":"","hint":""}`:      "as sealift writes it",
		`{"kind":"failed","path":"a","target":0,"stage":"","cause":"","hint":"","x":1}`: "unknown field",
		`[]`: "cannot unmarshal",
	} {
		s, a := beginOne(t, file("a", 1))
		part, err := a.writePart(outcomesName, partHead(outcomesName, s.Plan.ID, 0, 1), textOf("{}\n"+text+"\n"))
		require.NoError(t, err)
		r, err := s.OpenOutcomes(finish(t, s, a, part), &struct{}{})
		require.NoError(t, err)
		_, err = r.Next()
		r.Close()
		require.ErrorContains(t, err, cause, text)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("- 0 0 - a")
	f.Add("cu 3 -4 " + strings.Repeat("ab", 16) + ` sub/x\ny`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLine([]byte(text), []hash.Algorithm{hash.MD5})
		if err == nil {
			require.Equal(t, text+"\n", string(appendLine(nil, l)))
		}
	})
}
