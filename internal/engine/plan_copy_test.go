package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/shard"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// runPlan runs all shards of a plan, and merges them.
func (p *planCase) runPlan(s *shard.Store) {
	p.Helper()
	var events []event.Event
	options := func() *Options {
		o, err := OptionsOfPlan(s.Plan)
		require.NoError(p, err)
		o.Workers, o.Report = 2, func(e event.Event) { events = append(events, e) }
		return o
	}
	for i := range s.Plan.Shards {
		_, err := RunShard(p.Context(), options(), s, i, shard.AttemptOptions{}, &counters.Set{})
		require.NoError(p, err)
	}
	_, err := Merge(p.Context(), &MergeOptions{Plan: s, Copy: options()}, &counters.Set{})
	require.NoError(p, err)
	require.Empty(p, badOf(events))
}

// A copy that was planned, run in shards and merged has the result of one copy, also into a
// destination with an earlier copy and its manifest.
func TestAPlannedCopyHasTheResultOfACopy(t *testing.T) {
	tree := func() treetest.Dir {
		return treetest.Dir{
			"a": treetest.File("1", treetest.Linked("g"), treetest.Mode(0o640)), "b": treetest.Dir{"c": treetest.File("1", treetest.Linked("g")), "d": treetest.File("22")},
			"empty": treetest.Directory(treetest.Dir{}, treetest.Mode(0o750), treetest.Mtime(longAgo)),
			"ro":    treetest.Directory(treetest.Dir{"deep": treetest.Dir{"f": treetest.File("333", treetest.Mtime(before))}}, treetest.Mode(0o555), treetest.Mtime(since)),
		}
	}
	for name, change := range map[string]func(base string){
		"a new destination": func(string) {},
		"an earlier copy": func(base string) {
			o := options(filepath.Join(base, "src"), filepath.Join(base, "dst"))
			runReported(t, o)
			require.NoError(t, os.Remove(filepath.Join(base, "dst/b/d")))
			require.NoError(t, os.WriteFile(filepath.Join(base, "src/b/d"), []byte("other"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(base, "src/new"), []byte("new"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(base, "dst/own"), []byte("own"), 0o600))
		},
		"a source with a manifest": func(base string) {
			require.NoError(t, os.WriteFile(filepath.Join(base, "src/SHA256SUMS"), []byte(lineOf("1", "a")+lineOf("22", "b/d")), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanCase(t, tree(), nil)
			change(p.base)
			twin := p.base + "-twin"
			t.Cleanup(func() { treetest.Remove(t, twin) })
			single := filepath.Join(twin, "dst")
			require.NoError(t, os.Mkdir(twin, 0o700))
			if _, err := os.Lstat(p.target); err == nil {
				o := options(p.target, single)
				o.Hashes = nil
				runReported(t, o)
			}
			one := p.opts
			one.Targets = []string{single}
			mustRun(t, one)

			s := p.planned()
			p.runPlan(s)
			manifests := []string{"SHA256SUMS", "sealift.sha256"} // they have the time of each run
			treetest.Compare(t, single, p.target, treetest.Options{Ignore: manifests, Root: name != "an earlier copy"})
			for _, manifest := range manifests {
				want, err := os.ReadFile(filepath.Join(single, manifest))
				if err != nil {
					continue
				}
				got, err := os.ReadFile(filepath.Join(p.target, manifest))
				require.NoError(t, err)
				assert.Equal(t, string(want), string(got))
			}
			assert.NoDirExists(t, filepath.Join(p.target, ".sealift-journal"))
		})
	}
}
