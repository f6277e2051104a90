//go:build unix

package verify_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// planned plans the check that o describes, in 3 shards.
func planned(t *testing.T, o *verify.Options) *shard.Store {
	t.Helper()
	into := filepath.Join(treetest.MemoryDir(t), "plan")
	_, err := verify.Plan(t.Context(), o, verify.PlanOptions{Into: into, Shards: 3}, &counters.Set{})
	require.NoError(t, err)
	return openStore(t, into)
}

func openStore(t *testing.T, into string) *shard.Store {
	t.Helper()
	dir, err := fsys.OpenRoot(into)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	s, err := shard.Open(dir)
	require.NoError(t, err)
	return s
}

// optionsOf returns the options of a plan.
func optionsOf(t *testing.T, s *shard.Store) *verify.Options {
	t.Helper()
	o, err := verify.OptionsOfPlan(s.Plan, &filter.List{})
	require.NoError(t, err)
	return o
}

// reportedLines collects the messages of a run.
func reportedLines(o *verify.Options) *[]string {
	list := &[]string{}
	o.Report = func(r verify.Result) {
		*list = append(*list, fmt.Sprintf("%d %q %q %q %s %v", r.Verdict, r.Dir, r.Manifest, r.Path, r.Algorithm, r.Err))
	}
	return list
}

// sameAsOneCheck compares a check that was planned, run in shards and merged with one Run.
func sameAsOneCheck(t *testing.T, o verify.Options) *verify.Summary {
	t.Helper()
	want := reportedLines(&o)
	wantSummary, err := verify.Run(t.Context(), &o, &counters.Set{})
	require.NoError(t, err)

	o.Report = nil
	s := planned(t, &o)
	var entries int64
	for i := range s.Plan.Shards { // the last one first
		_, err := verify.RunShard(t.Context(), optionsOf(t, s), s, len(s.Plan.Shards)-1-i, shard.AttemptOptions{}, &counters.Set{})
		require.NoError(t, err)
		entries += s.Plan.Shards[i].Entries
	}
	require.Greater(t, entries, s.Plan.Shards[0].Entries, "several shards have files")
	merging := optionsOf(t, s)
	merging.Verbose = o.Verbose
	have := reportedLines(merging)
	summary, err := verify.Merge(t.Context(), merging, s, &counters.Set{})
	require.NoError(t, err)
	assert.Equal(t, *want, *have)
	summary.Elapsed, wantSummary.Elapsed = 0, 0
	assert.Equal(t, wantSummary, summary)
	return summary
}

// A planned check has the same results, in the same order, and the same counts as one check.
func TestAPlannedCheckHasTheResultsOfACheck(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := tree(t, map[string]string{
		"a": "A", "d/b": "B", "d/changed": "x", "back\\slash": "D", "new\nline": "E", "\xff": "F", "extra": "", "d/more": "", "sub/c": "C",
		"SHA256SUMS": sha("A") + "  a\n" + sha("B") + "  d/b\n" + sha("C") + "  d/changed\n" + sha("D") + "  gone\n" +
			`\` + sha("E") + `  new\nline` + "\n" + sha("F") + "  \xff\n" + sha("A") + "  ../../outside\n" + sha("A") + "  /etc/passwd\n" +
			sha("A") + "  d\n" + sha("A") + "  link\n" + "nonsense\n",
		"MD5SUMS": md("A") + "  a\n" + md("x") + "  d/changed\n" + md("Y") + "  d/b\n" + md("C") + `  sub\c` + "\n",
	})
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "link")))
	other := tree(t, map[string]string{"z": "Z", "SHA512SUMS": sha5("z") + "  z\n", ".sealift-journal/x": ""})
	everything := verify.Options{Paths: []string{dir, other}, ConvertPaths: true, Unlisted: true, Verbose: true}
	summary := sameAsOneCheck(t, everything)
	assert.EqualValues(t, 3, summary.Mismatches)
	assert.EqualValues(t, 3, summary.Unlisted)
	assert.Positive(t, summary.Missing)
	assert.Positive(t, summary.Errors)
	assert.Positive(t, summary.Incomplete)

	sameAsOneCheck(t, verify.Options{Paths: []string{dir}, IgnoreMissing: true, Strict: true})
	rules := &filter.List{}
	require.NoError(t, rules.Exclude("*b"))
	summary = sameAsOneCheck(t, verify.Options{Paths: []string{dir}, Filter: rules})
	assert.Positive(t, summary.LeftOut)
	sameAsOneCheck(t, verify.Options{Paths: []string{dir}, Manifest: "MD5SUMS"})
	sameAsOneCheck(t, verify.Options{Paths: []string{dir}, Manifest: filepath.Join(dir, "SHA256SUMS")})
}

// Only the merge can decide whether a complete bag is valid.
func TestAPlannedCheckOfABagFindsWhatNoTaskCanFind(t *testing.T) {
	dir := tree(t, map[string]string{
		"bagit.txt": "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n", "bag-info.txt": "Payload-Oxum: 5.9\n",
		"data/a": "A", "data/b\n%25": "B", "data/c": "C", "data/unlisted": "U",
		"manifest-sha256.txt": sha("A") + "  data/a\n" + sha("B") + "  data/b%0A%25\n" + sha("C") + "  data/c\n",
	})
	summary := sameAsOneCheck(t, verify.Options{Paths: []string{dir}})
	assert.EqualValues(t, 3, summary.Matches)
	assert.EqualValues(t, 2, summary.Mismatches)
}

func TestAPlannedCheckOfNothingButMissingFilesFails(t *testing.T) {
	dir := tree(t, map[string]string{"SHA256SUMS": sha("A") + "  a\n" + sha("B") + "  b\n" + sha("C") + "  c\n"})
	summary := sameAsOneCheck(t, verify.Options{Paths: []string{dir}, IgnoreMissing: true})
	assert.EqualValues(t, 1, summary.Errors)
}

// Nothing is written to the directory that is checked, and shards with failures can run again.
func TestAShardOfACheckCanRunAgain(t *testing.T) {
	dir := tree(t, map[string]string{"a": "x", "b": "B", "SHA256SUMS": sha("A") + "  a\n" + sha("B") + "  b\n"})
	s := planned(t, &verify.Options{Paths: []string{dir}})
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 3)
	run := func(i int) error {
		_, err := verify.RunShard(t.Context(), optionsOf(t, s), s, i, shard.AttemptOptions{}, &counters.Set{})
		return err
	}
	for i := range s.Plan.Shards {
		require.NoError(t, run(i))
	}
	progress, err := s.Progress(t.Context())
	require.NoError(t, err)
	require.Len(t, progress.Failed(), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("A"), 0o600))
	for i := range s.Plan.Shards {
		if err := run(i); i == progress.Failed()[0] {
			require.NoError(t, err)
		} else {
			require.ErrorAs(t, err, new(*shard.FinishedError))
		}
	}
	summary, err := verify.Merge(t.Context(), optionsOf(t, s), s, &counters.Set{})
	require.NoError(t, err)
	assert.EqualValues(t, 2, summary.Matches)
	assert.Zero(t, summary.Mismatches)
}

func TestWhatIsRefusedInAPlannedCheck(t *testing.T) {
	var refused *failure.RefusedError
	dir := tree(t, map[string]string{"a": "A", "SHA256SUMS": sha("A") + "  a\n"})
	for name, into := range map[string]string{"the directory": dir, "inside": filepath.Join(dir, "d/plan"), "no name": ""} {
		_, err := verify.Plan(t.Context(), &verify.Options{Paths: []string{dir}}, verify.PlanOptions{Into: into}, &counters.Set{})
		require.ErrorAs(t, err, &refused, name)
	}
	assert.NoDirExists(t, filepath.Join(dir, "d"))

	s := planned(t, &verify.Options{Paths: []string{dir}})
	other := optionsOf(t, s)
	other.Paths = []string{tree(t, map[string]string{"a": "A"})}
	_, err := verify.RunShard(t.Context(), other, s, 0, shard.AttemptOptions{}, &counters.Set{})
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "not the directory of the plan")

	for i := range s.Plan.Shards {
		_, err := verify.RunShard(t.Context(), optionsOf(t, s), s, i, shard.AttemptOptions{}, &counters.Set{})
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sha("B")+"  a\n"), 0o600))
	_, err = verify.Merge(t.Context(), optionsOf(t, s), s, &counters.Set{})
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "has changed since the plan was made")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "MD5SUMS"), []byte(md("A")+"  a\n"), 0o600))
	_, err = verify.Merge(t.Context(), optionsOf(t, s), s, &counters.Set{})
	require.ErrorAs(t, err, &refused)
}

// A manifest that each directory has is not taken from the current directory of the merge.
func TestAPlannedCheckUsesTheManifestsOfThePlan(t *testing.T) {
	dir := tree(t, map[string]string{"a": "A", "list": sha("A") + "  a\n"})
	s := planned(t, &verify.Options{Paths: []string{dir}, Manifest: "list"})
	for i := range s.Plan.Shards {
		_, err := verify.RunShard(t.Context(), optionsOf(t, s), s, i, shard.AttemptOptions{}, &counters.Set{})
		require.NoError(t, err)
	}
	t.Chdir(tree(t, map[string]string{"list": sha("B") + "  a\n"}))
	summary, err := verify.Merge(t.Context(), optionsOf(t, s), s, &counters.Set{})
	require.NoError(t, err)
	assert.EqualValues(t, 1, summary.Matches)
}

// Results that another process has changed are not merged.
func TestAPlannedCheckWithChangedResultsIsNotMerged(t *testing.T) {
	dir := tree(t, map[string]string{"a": "x", "SHA256SUMS": sha("A") + "  a\n"})
	into := filepath.Join(treetest.MemoryDir(t), "plan")
	_, err := verify.Plan(t.Context(), &verify.Options{Paths: []string{dir}}, verify.PlanOptions{Into: into}, &counters.Set{})
	require.NoError(t, err)
	s := openStore(t, into)
	_, err = verify.Merge(t.Context(), optionsOf(t, s), s, &counters.Set{})
	require.ErrorContains(t, err, "shard 0: it is not finished")
	_, err = verify.RunShard(t.Context(), optionsOf(t, s), s, 0, shard.AttemptOptions{}, &counters.Set{})
	require.NoError(t, err)
	results := filepath.Join(into, "work/00000/000001/results")
	text, err := os.ReadFile(results)
	require.NoError(t, err)
	changed := strings.Replace(string(text), `"mismatch"`, `"match"`, 1)
	require.NotEqual(t, string(text), changed)
	require.NoError(t, os.WriteFile(results, []byte(changed), 0o600))
	_, err = verify.Merge(t.Context(), optionsOf(t, s), s, &counters.Set{})
	require.ErrorContains(t, err, "its size or digest differs")
}
