package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/policy"
)

func TestEachOutcomeHasItsReason(t *testing.T) {
	file := policy.Observation{Exists: true, Hashing: true, Source: fsys.Regular, Dst: fsys.Regular}
	with := func(change func(*policy.Observation)) policy.Observation {
		o := file
		change(&o)
		return o
	}
	for want, c := range map[string]struct {
		o     policy.Observation
		equal bool
		done  outcome
	}{
		"": {policy.Observation{Source: fsys.Regular}, false, outCreated},
		"same size and modification time": {with(func(o *policy.Observation) {
			o.SameSize, o.SameTime, o.LineHolds, o.Line = true, true, true, hash.Digests{{1}}
		}), false, outUpToDate},
		"same content":                                      {with(func(o *policy.Observation) { o.SameSize = true }), true, outUpToDate},
		"copied by the interrupted run":                     {with(func(o *policy.Observation) { o.Journal.Listed = true }), false, outUpToDate},
		"--overwrite-policy=never":                          {with(func(o *policy.Observation) { o.Policy = policy.Never }), false, outLeft},
		"the source changed while it was copied":            {with(func(o *policy.Observation) { o.Ours = true }), false, outReplaced},
		"was a symbolic link":                               {with(func(o *policy.Observation) { o.Policy, o.Dst = policy.Always, fsys.Symlink }), false, outReplaced},
		"shares its inode with other names":                 {with(func(o *policy.Observation) { o.SameSize = true }), true, outReplaced},
		"perhaps damaged when the last run was interrupted": {with(func(o *policy.Observation) { o.SameSize, o.Journal.Suspect = true, true }), false, outReplaced},
		"damaged: differs from the previous manifest": {with(func(o *policy.Observation) {
			o.SameSize, o.SameTime, o.Line = true, true, hash.Digests{{1}}
		}), false, outReplaced},
		"--overwrite-policy=always": {with(func(o *policy.Observation) { o.Policy, o.SameSize, o.SameTime = policy.Always, true, true }), false, outReplaced},
		"link target differs":       {with(func(o *policy.Observation) { o.Policy, o.Source, o.Dst = policy.Update, fsys.Symlink, fsys.Symlink }), false, outReplaced},
		"device number differs": {with(func(o *policy.Observation) {
			o.Policy, o.Source, o.Dst = policy.Update, fsys.CharDevice, fsys.CharDevice
		}), false, outReplaced},
		"size differs":              {file, false, outReplaced},
		"content differs":           {with(func(o *policy.Observation) { o.Policy, o.SameSize, o.SameTime = policy.Checksum, true, true }), false, outReplaced},
		"modification time differs": {with(func(o *policy.Observation) { o.Policy, o.SameSize = policy.Update, true }), false, outReplaced},
	} {
		require.Equal(t, want, reasonOf(c.o, policy.Decide(c.o), c.equal, c.done))
	}
	unreadable := with(func(o *policy.Observation) { o.Policy, o.SameSize, o.SameTime = policy.Checksum, true, true })
	d := policy.Decide(unreadable)
	d.Unreadable = true
	require.Equal(t, "content cannot be read", reasonOf(unreadable, d, false, outReplaced))
}
