package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/choice"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// planned returns the options that a plan fixes for all of its tasks. A plan stores the source and
// the destinations separately. Each task chooses the other options.
func planned(o *Options) shard.Options {
	p := shard.Options{
		Hashes:         slices.Clone(o.Hashes),
		Manifest:       shard.Text(o.Manifest),
		Policy:         o.Policy.String(),
		BackupDir:      shard.Text(o.BackupDir),
		Preserve:       o.Preserve.Names(),
		Sync:           o.Sync.String(),
		Sparse:         o.Sparse.String(),
		Reflink:        o.Reflink.String(),
		Verify:         o.Verify.String(),
		SourceManifest: o.SourceManifest.String(),
		OneFileSystem:  o.OneFileSystem,
		AllowUnmounted: o.AllowUnmounted,
		Rules:          shard.RulesOf(o.Filter),
	}
	if o.Only != nil {
		p.FilesFrom = fmt.Sprintf("%x", o.Only.Fingerprint())
	}
	return p
}

// OptionsOfPlan returns the options of the planned copy, with the plan's source and
// destinations. Only is always nil: the shards contain the files that --files-from has
// selected.
func OptionsOfPlan(p *shard.Plan) (*Options, error) {
	o := &Options{
		Source:         string(p.Source.Path),
		Records:        Records{Hashes: slices.Clone(p.Options.Hashes), Manifest: string(p.Options.Manifest)},
		BackupDir:      string(p.Options.BackupDir),
		Selection:      Selection{OneFileSystem: p.Options.OneFileSystem},
		AllowUnmounted: p.Options.AllowUnmounted,
	}
	for _, t := range p.Targets {
		o.Targets = append(o.Targets, string(t.Path))
	}
	for _, err := range [...]error{
		parseInto(&o.Policy, policy.All, p.Options.Policy),
		parseInto(&o.Sync, dest.SyncModes, p.Options.Sync),
		parseInto(&o.Sparse, SparseModes, p.Options.Sparse),
		parseInto(&o.Reflink, ReflinkModes, p.Options.Reflink),
		parseInto(&o.Verify, VerifyModes, p.Options.Verify),
		parseInto(&o.SourceManifest, SourceManifestModes, p.Options.SourceManifest),
	} {
		if err != nil {
			return nil, err
		}
	}
	if len(p.Options.Preserve) > 0 {
		var err error
		if o.Preserve, err = metadata.ParsePreserve(strings.Join(p.Options.Preserve, ",")); err != nil {
			return nil, err
		}
	}
	if len(p.Options.Rules) > 0 {
		o.Filter = &filter.List{}
		return o, p.Options.AddRules(o.Filter)
	}
	return o, nil
}

// parseInto parses the name of an option's value.
func parseInto[T ~uint8](value *T, table choice.Table[T], name string) (err error) {
	*value, err = table.Parse(name)
	return err
}
