package engine

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/shard"
)

// notPlanned are the options that no plan fixes, with the reason.
var notPlanned = map[string]string{
	"MHL":            "plan refuses it",
	"MediaList":      "plan refuses it",
	"Bag":            "plan refuses it",
	"DryRun":         "plan refuses it",
	"BlockSize":      "of each task",
	"QueueSize":      "of each task",
	"Workers":        "of each task",
	"Memory":         "of each task",
	"BytesPerSecond": "of each task",
	"DirtyWindow":    "of each task",
	"Cache":          "of each task",
	"FailFast":       "of each task",
	"FS":             "for tests",
	"Report":         "of each task",
	"Each":           "of each task",
}

// everyOption returns options that all differ from their defaults.
func everyOption(t *testing.T) *Options {
	rules := &filter.List{}
	require.NoError(t, rules.Exclude("*.tmp"))
	require.NoError(t, rules.Include("/a\xff/**"))
	only, err := filter.ReadOnly(strings.NewReader("a\nb/c\n"), false)
	require.NoError(t, err)
	return &Options{
		Source: "/src", Targets: []string{"/dst", "/dst\n2"},
		Records: Records{Hashes: []hash.Algorithm{hash.MD5}, Manifest: "sums/all"}, Policy: policy.Protect, BackupDir: "old",
		Sync: dest.SyncFile, Sparse: SparseNever, Reflink: ReflinkNever, Preserve: metadata.PreserveTimes | metadata.PreserveACL,
		Verify: VerifyFull, SourceManifest: SourceManifestPresent, Selection: Selection{Filter: rules, Only: only, OneFileSystem: true}, AllowUnmounted: true,
		Resources: Resources{BlockSize: 1 << 20, QueueSize: 3, Workers: 2, Memory: 1 << 24, BytesPerSecond: 1, DirtyWindow: 1, Cache: pipe.CacheDrop},
		DryRun:    true, FailFast: true,
	}
}

func planFrom(o *Options) *shard.Plan {
	p := &shard.Plan{Options: planned(o), Source: shard.Root{Path: shard.Text(o.Source)}}
	for _, target := range o.Targets {
		p.Targets = append(p.Targets, shard.Root{Path: shard.Text(target)})
	}
	return p
}

func TestEveryOptionIsInThePlanOrBelongsToTheTasks(t *testing.T) {
	full := everyOption(t)
	back, err := OptionsOfPlan(planFrom(full))
	require.NoError(t, err)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		if field.Anonymous || !field.IsExported() {
			continue
		}
		want, got := reflect.ValueOf(full).Elem().FieldByIndex(field.Index), reflect.ValueOf(back).Elem().FieldByIndex(field.Index)
		if notPlanned[field.Name] != "" {
			assert.True(t, got.IsZero(), "%s is %s", field.Name, notPlanned[field.Name])
			continue
		}
		require.False(t, want.IsZero(), "everyOption sets no %s", field.Name)
		switch field.Name {
		case "Only": // the shards contain what it selects; the plan says which one it was
			other := *full
			other.Only = nil
			assert.NotEqual(t, planned(full), planned(&other))
		case "Filter":
			assert.Equal(t, full.Filter.Fingerprint(), back.Filter.Fingerprint())
		default:
			assert.Equal(t, want.Interface(), got.Interface(), field.Name)
		}
	}
}

func TestThePlanOfTheDefaultsHasTheDefaults(t *testing.T) {
	o := &Options{Source: "/src", Targets: []string{"/dst"}}
	back, err := OptionsOfPlan(planFrom(o))
	require.NoError(t, err)
	assert.Equal(t, o, back)
}

func TestAPlanWithUnknownOptionsIsAnError(t *testing.T) {
	for name, change := range map[string]func(*shard.Options){
		"overwrite policy": func(o *shard.Options) { o.Policy = "sometimes" },
		"kind of metadata": func(o *shard.Options) { o.Preserve = []string{"smell"} },
		"pattern":          func(o *shard.Options) { o.Rules = []shard.Rule{{Pattern: "[a"}} },
		"sync mode":        func(o *shard.Options) { o.Sync = "" },
	} {
		p := planFrom(&Options{})
		change(&p.Options)
		_, err := OptionsOfPlan(p)
		assert.ErrorContains(t, err, name)
	}
}
