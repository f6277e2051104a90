//go:build unix

package verify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// Each sign of an unfinished copy is reported once, before all other results, in every
// mode. Files that match do not change that.
func TestSignsOfAnUnfinishedCopy(t *testing.T) {
	const marker = "SEALIFT-INCOMPLETE-card.txt"
	text := incomplete.Head{Source: "'/card'", Filters: incomplete.NoFilters, Missing: 2}.String()
	files := map[string]string{
		"a": "A", marker: text, ".sealift-journal/log.1": "", "d/" + marker: "of another tree",
		"SHA256SUMS": sha("A") + "  a\n", "MD5SUMS": md("A") + "  a\n",
	}
	journal := "INCOMPLETE .sealift-journal: a copy into this directory is unfinished or still running; if it is not running, run that copy again"
	marked := "INCOMPLETE " + marker + ": the copy from '/card' is incomplete, 2 paths are missing or wrong; run the same copy again: it removes this file when it is complete"
	for name, o := range map[string]verify.Options{
		"plain":    {},
		"strict":   {Strict: true, IgnoreMissing: true},
		"manifest": {Manifest: "MD5SUMS"},
		"unlisted": {Unlisted: true},
	} {
		o.Paths = []string{tree(t, files), tree(t, map[string]string{"a": "A", "MD5SUMS": md("A") + "  a\n"})}
		reported, s, err := check(t, &o)
		require.NoError(t, err, name)
		want := []string{journal, marked}
		if o.Unlisted {
			want = append(want, "UNLISTED d/"+marker)
		}
		require.Equal(t, want, reported, name)
		require.EqualValues(t, 2, s.Incomplete, name)
		require.Zero(t, s.Errors+s.Mismatches+s.Missing+s.Warnings, name)
	}
}

// A listed marker comes from a copy of an incomplete copy. verify checks it like any file,
// and also reports it as a marker.
func TestAMarkerThatIsListed(t *testing.T) {
	const marker = "SEALIFT-INCOMPLETE-card.txt"
	dir := tree(t, map[string]string{marker: "changed", "SHA256SUMS": sha("as copied") + "  " + marker + "\n"})
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}, Unlisted: true})
	require.NoError(t, err)
	require.Len(t, reported, 2)
	require.True(t, strings.HasPrefix(reported[0], "INCOMPLETE "+marker), reported[0])
	require.Equal(t, "FAILED "+marker, reported[1])
	require.EqualValues(t, 1, s.Incomplete)
}

// An interrupted first copy has written no manifest. verify reports the sign, and has
// nothing to check.
func TestSignsWithoutAManifest(t *testing.T) {
	dir := tree(t, map[string]string{"a": "A", ".sealift-journal/log.1": ""})
	reported, s, err := check(t, &verify.Options{Paths: []string{dir}})
	require.NoError(t, err)
	require.Len(t, reported, 2)
	require.True(t, strings.HasPrefix(reported[0], "INCOMPLETE .sealift-journal"), reported[0])
	require.Equal(t, "FAILURE : there is no manifest, so no file was checked", reported[1])
	require.EqualValues(t, 1, s.Incomplete)
	require.EqualValues(t, 1, s.Errors)

	refused := new(failure.RefusedError)
	_, _, err = check(t, &verify.Options{Paths: []string{tree(t, map[string]string{"a": "A", ".sealift-journal/lock": ""})}})
	require.ErrorAs(t, err, &refused)
	_, s, err = check(t, &verify.Options{Paths: []string{tree(t, map[string]string{"SHA256SUMS": "none", ".sealift-journal/log.1": ""})}})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Incomplete)
	require.Positive(t, s.Errors)
}
