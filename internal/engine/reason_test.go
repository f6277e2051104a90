package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

func TestEachOutcomeHasItsReason(t *testing.T) {
	file := observation{exists: true, hashing: true, source: fsys.Regular, have: fsys.Regular}
	with := func(change func(*observation)) observation {
		o := file
		change(&o)
		return o
	}
	for want, c := range map[string]struct {
		o     observation
		equal bool
		done  outcome
	}{
		"": {observation{source: fsys.Regular}, false, outCreated},
		"same size and modification time": {with(func(o *observation) {
			o.sameSize, o.sameTime, o.lineHolds, o.line = true, true, true, hash.Digests{{1}}
		}), false, outUpToDate},
		"same content":                                      {with(func(o *observation) { o.sameSize = true }), true, outUpToDate},
		"copied by the interrupted run":                     {with(func(o *observation) { o.journal.listed = true }), false, outUpToDate},
		"--overwrite-policy=never":                          {with(func(o *observation) { o.policy = PolicyNever }), false, outLeft},
		"the source changed while it was copied":            {with(func(o *observation) { o.ours = true }), false, outReplaced},
		"was a symbolic link":                               {with(func(o *observation) { o.policy, o.have = PolicyAlways, fsys.Symlink }), false, outReplaced},
		"shares its inode with other names":                 {with(func(o *observation) { o.sameSize = true }), true, outReplaced},
		"perhaps damaged when the last run was interrupted": {with(func(o *observation) { o.sameSize, o.journal.suspect = true, true }), false, outReplaced},
		"damaged: differs from the previous manifest": {with(func(o *observation) {
			o.sameSize, o.sameTime, o.line = true, true, hash.Digests{{1}}
		}), false, outReplaced},
		"--overwrite-policy=always": {with(func(o *observation) { o.policy, o.sameSize, o.sameTime = PolicyAlways, true, true }), false, outReplaced},
		"link target differs":       {with(func(o *observation) { o.policy, o.source, o.have = PolicyUpdate, fsys.Symlink, fsys.Symlink }), false, outReplaced},
		"device number differs":     {with(func(o *observation) { o.policy, o.source, o.have = PolicyUpdate, fsys.CharDevice, fsys.CharDevice }), false, outReplaced},
		"size differs":              {file, false, outReplaced},
		"content differs":           {with(func(o *observation) { o.policy, o.sameSize, o.sameTime = PolicyChecksum, true, true }), false, outReplaced},
		"modification time differs": {with(func(o *observation) { o.policy, o.sameSize = PolicyUpdate, true }), false, outReplaced},
	} {
		require.Equal(t, want, reasonOf(c.o, decide(c.o), c.equal, c.done))
	}
	unreadable := with(func(o *observation) { o.policy, o.sameSize, o.sameTime = PolicyChecksum, true, true })
	d := decide(unreadable)
	d.unreadable = true
	require.Equal(t, "content cannot be read", reasonOf(unreadable, d, false, outReplaced))
}
