package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
)

func allPolicies() []policy.Policy {
	return []policy.Policy{policy.Default, policy.Never, policy.Always, policy.Update, policy.Checksum, policy.Protect}
}

// situation is a state of the destination, with the decision of each overwrite policy.
type situation struct {
	name      string
	src, have fsys.Info
	sameNode  bool
	want      string // for each of allPolicies: see spell
}

// situations returns every situation that the policies distinguish.
func situations() []situation {
	at := func(sec int64) fsys.Time { return fsys.Time{Sec: sec} }
	regular := func(size, sec int64) fsys.Info {
		return fsys.Info{Kind: fsys.Regular, Size: size, Mtime: at(sec)}
	}
	other := func(kind fsys.Kind, sec int64) fsys.Info { return fsys.Info{Kind: kind, Mtime: at(sec)} }
	return []situation{
		{"same size, same time", regular(5, 100), regular(5, 100), false, "keep leave replace keep ?keep:replace keep"},
		{"same size, older", regular(5, 100), regular(5, 50), false, "?keep:replace leave replace replace ?keep:replace ?keep:conflict"},
		{"same size, newer", regular(5, 100), regular(5, 200), false, "?keep:conflict leave replace replace ?keep:replace ?keep:conflict"},
		{"other size, same time", regular(5, 100), regular(6, 100), false, "replace leave replace replace replace conflict"},
		{"other size, older", regular(5, 100), regular(6, 50), false, "replace leave replace replace replace conflict"},
		{"other size, newer", regular(5, 100), regular(6, 200), false, "conflict leave replace replace replace conflict"},
		{"empty, same time", regular(0, 100), regular(0, 100), false, "keep leave replace keep ?keep:replace keep"},
		{"equal links", other(fsys.Symlink, 100), other(fsys.Symlink, 200), true, "keep leave replace keep keep keep"},
		{"other link, older", other(fsys.Symlink, 100), other(fsys.Symlink, 50), false, "replace leave replace replace replace conflict"},
		{"other link, same time", other(fsys.Symlink, 100), other(fsys.Symlink, 100), false, "replace leave replace replace replace conflict"},
		{"other link, newer", other(fsys.Symlink, 100), other(fsys.Symlink, 200), false, "conflict leave replace replace replace conflict"},
		{"fifos", other(fsys.Fifo, 100), other(fsys.Fifo, 50), true, "keep leave replace keep keep keep"},
		{"other device, newer", other(fsys.CharDevice, 100), other(fsys.CharDevice, 200), false, "conflict leave replace replace replace conflict"},
		{"link in a file's way", regular(5, 100), other(fsys.Symlink, 50), false, "conflict leave replace replace replace conflict"},
		{"file in a link's way", other(fsys.Symlink, 100), regular(5, 50), false, "conflict leave replace replace replace conflict"},
		{"fifo in a file's way", regular(5, 100), other(fsys.Fifo, 50), false, "conflict leave replace replace replace conflict"},
		{"device in a fifo's way", other(fsys.Fifo, 100), other(fsys.CharDevice, 100), false, "conflict leave replace replace replace conflict"},
		{"directory in a file's way", regular(5, 100), other(fsys.Directory, 50), false, "conflict leave conflict conflict conflict conflict"},
		{"directory in a link's way", other(fsys.Symlink, 100), other(fsys.Directory, 50), false, "conflict leave conflict conflict conflict conflict"},
	}
}

// spell writes a decision as one word. "?a:b" compares: a if the content is equal, b if not.
func spell(d policy.Decision) string {
	names := map[policy.Action]string{
		policy.Create: "create", policy.Replace: "replace", policy.Keep: "keep", policy.Leave: "leave", policy.LeaveConflict: "conflict",
	}
	if d.Act == policy.Compare {
		return "?" + names[d.Equal] + ":" + names[d.Different]
	}
	return names[d.Act]
}

// observed returns the observation of a situation.
func (s *situation) observed(o Options) policy.Observation {
	r := &run{}
	r.opts = &o
	seen := r.observationOf(&dest.FileSystem{Store: metadata.Store{Granularity: 1}}, s.src, s.have)
	seen.SameNode = s.sameNode
	return seen
}

// afterInterruption maps the decision of the policy about a regular file to the one after an
// interrupted run. docs/guarantees.md describes the rules. A file that the journal lists is up to date. The run
// compares any other file that has changed since, and replaces it if size or content differ. Policy
// "never" leaves that file unchanged.
var afterInterruption = map[string]struct{ listed, suspectSameSize, suspectOtherSize string }{
	"keep":           {"keep", "?keep:replace", ""},
	"leave":          {"leave", "?leave:leave", "leave"},
	"replace":        {"keep", "replace", "replace"},
	"conflict":       {"keep", "", "replace"},
	"?keep:replace":  {"keep", "?keep:replace", ""},
	"?keep:conflict": {"keep", "?keep:replace", ""},
}

// The test covers every combination of the policy, the existing entry, the earlier line, and the
// records of an interrupted run's journal. The rules are in docs/overwriting.md
// and docs/manifest.md.
func TestDecideEveryCombination(t *testing.T) {
	t.Parallel()
	line, listed := hash.Digests{{1}}, hash.Digests{{2}}
	journals := map[string]policy.JournalView{
		"none": {}, "listed": {Listed: true, Digests: listed}, "listed, no hash": {Listed: true},
		"suspect": {Suspect: true},
	}
	cases := 0
	for _, s := range situations() {
		for i, chosen := range allPolicies() {
			word := strings.Fields(s.want)[i]
			files := s.src.Kind == fsys.Regular && s.have.Kind == fsys.Regular
			for what, journal := range journals {
				for _, lineIs := range []string{"none", "meets", "contradicts"} {
					for bits := range 4 {
						hashing, ours := bits&1 != 0, bits&2 != 0
						name := fmt.Sprint(s.name, "/", chosen, "/journal ", what, "/line ", lineIs, "/", hashing, ours)
						o := s.observed(Options{Policy: chosen})
						o.Hashing, o.Ours, o.Journal = hashing, ours, journal
						if lineIs != "none" {
							o.Line, o.LineHolds = line, lineIs == "meets"
						}

						want, known := word, policy.Content{}
						suspect := files && journal.Suspect && !ours
						switch {
						case ours:
							want = "replace"
						case files && journal.Listed:
							want, known = afterInterruption[word].listed, policy.Content{Digests: journal.Digests, Known: true}
						case suspect && chosen == policy.Protect:
							want = "?keep:conflict"
						case suspect && s.src.Size == s.have.Size:
							want = afterInterruption[word].suspectSameSize
						case suspect:
							want = afterInterruption[word].suspectOtherSize
						case files && hashing && word == "keep" && lineIs == "meets":
							known.Digests = line
						case files && hashing && word == "keep":
							want = "?keep:conflict"
						}

						d := policy.Decide(o)
						require.NotEmpty(t, want, name)
						require.Equal(t, want, spell(d), name)
						require.Equal(t, known, d.Content, name)
						require.Equal(t, strings.Contains(want, "conflict"), d.Conflict != nil, name)
						if suspect && strings.HasPrefix(want, "?") {
							require.True(t, d.Suspect, name)
						} else if strings.HasPrefix(want, "?") {
							require.False(t, d.Suspect, name)
						}
						require.Equal(t, suspect && chosen == policy.Protect, d.ReplacePartial, name)
						if want == "leave" {
							require.Equal(t, suspect, d.Suspect, "a warning: "+name)
						}
						if files && want == "?keep:conflict" && word == "keep" && !suspect && chosen != policy.Protect {
							require.Equal(t, o.Line, d.Line, name)
						} else if chosen == policy.Protect {
							require.Nil(t, d.Line, "a damaged file is not replaced: "+name)
						}
						cases++
					}
				}
			}
		}
	}
	require.Equal(t, 19*6*4*3*4, cases)
	require.Equal(t, "create", spell(policy.Decide(policy.Observation{})), "nothing has the name")
	require.Equal(t, "create", spell(policy.Decide(policy.Observation{Ours: true})), "nor is it there any more")
}

// The policies of SPEC without anything else, by situation.
func TestDecideByPolicy(t *testing.T) {
	t.Parallel()
	for _, s := range situations() {
		for i, chosen := range allPolicies() {
			t.Run(s.name+"/"+chosen.String(), func(t *testing.T) {
				d := policy.Decide(s.observed(Options{Policy: chosen}))
				require.Equal(t, strings.Fields(s.want)[i], spell(d))
				if d.Conflict == nil {
					return
				}
				require.NotEmpty(t, d.Conflict.Error())
				if s.have.Kind == fsys.Directory {
					require.Equal(t, policy.Default, d.Conflict.By, "no policy replaces a directory")
					return
				}
				// The advice must be true: that policy replaces.
				advised := policy.Decide(s.observed(Options{Policy: d.Conflict.By}))
				require.Equal(t, policy.Replace, advised.Act)
			})
		}
	}
}

// Times that differ only by what the destination rounds away are equal.
func TestDecideAtTheDestinationsGranularity(t *testing.T) {
	t.Parallel()
	src := fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: fsys.Time{Sec: 101, Nsec: 999_999_999}}
	for _, c := range []struct {
		granularity int64
		have        fsys.Time
		want        policy.Action
	}{
		{1, fsys.Time{Sec: 101, Nsec: 999_999_999}, policy.Keep},
		{1, fsys.Time{Sec: 101, Nsec: 999_999_998}, policy.Replace},
		{100, fsys.Time{Sec: 101, Nsec: 999_999_900}, policy.Keep},
		{100, fsys.Time{Sec: 101, Nsec: 999_999_899}, policy.Replace},
		{1e9, fsys.Time{Sec: 101}, policy.Keep},
		{1e9, fsys.Time{Sec: 100}, policy.Replace},
		{2e9, fsys.Time{Sec: 100}, policy.Keep},
		{2e9, fsys.Time{Sec: 102}, policy.Keep},
		{2e9, fsys.Time{Sec: 98}, policy.Replace},
	} {
		r := &run{}
		r.opts = &Options{Policy: policy.Update}
		have := fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: c.have}
		d := policy.Decide(r.observationOf(&dest.FileSystem{Store: metadata.Store{Granularity: c.granularity}}, src, have))
		require.Equal(t, c.want, d.Act, "%+v", c)
		if c.want == policy.Keep { // also with another size, the existing file does not count as newer
			r.opts.Policy, have.Size = policy.Default, 6
			d = policy.Decide(r.observationOf(&dest.FileSystem{Store: metadata.Store{Granularity: c.granularity}}, src, have))
			require.Equal(t, policy.Replace, d.Act, "%+v", c)
		}
	}
}

// A symbolic link at the destination that cannot be read fails that entry, except under
// policy never, which does not read it.
func TestALinkAtTheDestinationThatCannotBeRead(t *testing.T) {
	t.Parallel()
	needsSymlinks(t)
	for _, chosen := range allPolicies() {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		for _, in := range []string{src, dst} {
			require.NoError(t, os.Mkdir(in, 0o755))
			require.NoError(t, os.Symlink("target", filepath.Join(in, "link")))
		}
		readings := 0
		sys := faultfs.New(func(op fsys.Op, name string) error {
			if op == fsys.OpReadlink && name == "link" {
				if readings++; readings > 1 { // the first is of the source
					return errors.New("broken")
				}
			}
			return nil
		})
		s, err := Run(t.Context(), &Options{Source: src, Targets: []string{dst}, Policy: chosen, FS: sys, Resources: Resources{Workers: 1}}, &counters.Set{})
		require.NoError(t, err)
		if chosen == policy.Never {
			require.Zero(t, s.Errors)
			require.Equal(t, 1, readings)
		} else {
			require.EqualValues(t, 1, s.Errors, chosen)
		}
	}
}
