package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// A command line without flags gives the documented defaults to the engine.
func TestDefaultsOfCopy(t *testing.T) {
	o := parsed(t, "", "a", "b")
	if o.Report == nil {
		t.Error("no function receives the events")
	}
	o.Report = nil
	want := engine.Options{
		Source:    "a",
		Targets:   []string{"b"},
		Records:   engine.Records{Hashes: []hash.Algorithm{hash.SHA256}},
		Preserve:  metadata.PreserveAll,
		Resources: engine.Resources{BlockSize: engine.DefaultBlockSize, QueueSize: engine.DefaultQueueSize},
	}
	if !reflect.DeepEqual(*o, want) {
		t.Errorf("\n got %+v\nwant %+v", *o, want)
	}
}

func TestEachFlagOfCopyReachesItsOption(t *testing.T) {
	for _, c := range []struct {
		flag string
		get  func(*engine.Options) any
		want any
	}{
		{"--hash=blake3,md5", func(o *engine.Options) any { return o.Hashes }, []hash.Algorithm{hash.BLAKE3, hash.MD5}},
		{"--hash=none", func(o *engine.Options) any { return len(o.Hashes) }, 0},
		{"--manifest=sums/x", func(o *engine.Options) any { return o.Manifest }, "sums/x"},
		{"--overwrite-policy=checksum", func(o *engine.Options) any { return o.Policy }, policy.Checksum},
		{"--sync=file", func(o *engine.Options) any { return o.Sync }, dest.SyncFile},
		{"--sparse=never", func(o *engine.Options) any { return o.Sparse }, engine.SparseNever},
		{"--preserve=none", func(o *engine.Options) any { return o.Preserve }, metadata.PreserveNone},
		{"--preserve=mode,acl", func(o *engine.Options) any { return o.Preserve }, metadata.PreserveMode | metadata.PreserveACL},
		{"-x", func(o *engine.Options) any { return o.OneFileSystem }, true},
		{"--one-file-system", func(o *engine.Options) any { return o.OneFileSystem }, true},
		{"--block-size=4K", func(o *engine.Options) any { return o.BlockSize }, 4096},
		{"--block-size=1GiB", func(o *engine.Options) any { return o.BlockSize }, 1 << 30},
		{"--queue-size=1", func(o *engine.Options) any { return o.QueueSize }, 1},
		{"--workers=1024", func(o *engine.Options) any { return o.Workers }, 1024},
		{"--workers=auto", func(o *engine.Options) any { return o.Workers }, 0},
		{"--memory=128K", func(o *engine.Options) any { return o.Memory }, int64(128 << 10)},
		{"--memory=auto", func(o *engine.Options) any { return o.Memory }, int64(0)},
		{"--bwlimit=80MB", func(o *engine.Options) any { return o.BytesPerSecond }, int64(80e6)},
		{"--bwlimit=80MB/s", func(o *engine.Options) any { return o.BytesPerSecond }, int64(80e6)},
		{"--bwlimit=off", func(o *engine.Options) any { return o.BytesPerSecond }, int64(0)},
		{"--dirty-window=64M", func(o *engine.Options) any { return o.DirtyWindow }, int64(64 << 20)},
		{"--dirty-window=1MiB", func(o *engine.Options) any { return o.DirtyWindow }, int64(1 << 20)},
		{"--dirty-window=off", func(o *engine.Options) any { return o.DirtyWindow }, engine.DirtyWindowOff},
		{"--dirty-window=auto", func(o *engine.Options) any { return o.DirtyWindow }, engine.DirtyWindowAuto},
		{"--cache=auto", func(o *engine.Options) any { return o.Cache }, pipe.CacheAuto},
		{"--cache=keep", func(o *engine.Options) any { return o.Cache }, pipe.CacheKeep},
		{"--cache=drop", func(o *engine.Options) any { return o.Cache }, pipe.CacheDrop},
		{"--cache=direct", func(o *engine.Options) any { return o.Cache }, pipe.CacheDirect},
		{"-n", func(o *engine.Options) any { return o.DryRun }, true},
		{"--dry-run", func(o *engine.Options) any { return o.DryRun }, true},
		{"--verify", func(o *engine.Options) any { return o.Verify }, engine.VerifyDest},
		{"--verify=full", func(o *engine.Options) any { return o.Verify }, engine.VerifyFull},
		{"--verify=off", func(o *engine.Options) any { return o.Verify }, engine.VerifyOff},
		{"--source-manifest=present", func(o *engine.Options) any { return o.SourceManifest }, engine.SourceManifestPresent},
		{"--source-manifest=ignore", func(o *engine.Options) any { return o.SourceManifest }, engine.SourceManifestIgnore},
		{"--fail-fast", func(o *engine.Options) any { return o.FailFast }, true},
	} {
		if got := c.get(parsed(t, "", c.flag, "a", "b")); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s gives %v, want %v", c.flag, got, c.want)
		}
	}
}

func TestArgumentsBecomeTheSourceAndTheDestinations(t *testing.T) {
	for _, c := range []struct {
		args    []string
		source  string
		targets []string
	}{
		{[]string{"a", "b"}, "a", []string{"b"}},
		{[]string{"a", "b", "-o", "c", "--output", "d"}, "a", []string{"b", "c", "d"}},
		{[]string{"a", "-o", "b"}, "a", []string{"b"}},
		{[]string{"-i", "a", "b"}, "a", []string{"b"}},
		{[]string{"-o", "c", "-i", "a", "b"}, "a", []string{"b", "c"}},
		{[]string{"--input=a", "--output=b", "--output=c"}, "a", []string{"b", "c"}},
		{[]string{"a", "-o", "b,c"}, "a", []string{"b,c"}},
		{[]string{"--", "-a", "-b"}, "-a", []string{"-b"}},
		{[]string{"a\xff\n", "b"}, "a\xff\n", []string{"b"}},
	} {
		o := parsed(t, "", c.args...)
		if o.Source != c.source || !slices.Equal(o.Targets, c.targets) {
			t.Errorf("%q: from %q to %q, want from %q to %q", c.args, o.Source, o.Targets, c.source, c.targets)
		}
	}
}

// --include, --exclude and --exclude-from add to one list, in the order of the command line.
func TestRulesKeepTheirOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, []byte("# comment\n*.o\n!keep.o\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		path string
		want bool // selected
	}{
		{[]string{"--exclude", "*.o", "--include", "x.o", "--exclude", "z"}, "x.o", false},
		{[]string{"--include", "x.o", "--exclude", "*.o"}, "x.o", true},
		{[]string{"--include", "x.o", "--exclude", "*.o"}, "y.o", false},
		{[]string{"--include", "x.o", "--exclude", "z"}, "y.o", true},
		{[]string{"--exclude-from", file}, "keep.o", true},
		{[]string{"--exclude-from", file}, "x.o", false},
		{[]string{"--exclude-from", file, "--exclude", "keep.o"}, "keep.o", true},
		{[]string{"--exclude", "keep.o", "--exclude-from", file}, "keep.o", false},
		{[]string{"--exclude-from", file, "--include", "y.o", "--exclude", "*"}, "y.o", false},
		{[]string{"--include", "y.o", "--exclude-from", file}, "y.o", true},
		{[]string{"--exclude", "a,b"}, "a", true},
	} {
		o := parsed(t, "", append(c.args, "a", "b")...)
		if o.Filter == nil {
			t.Fatalf("%q: no filter", c.args)
		}
		if got := o.Filter.Match(c.path, false, o.Filter.Root()).Selected; got != c.want {
			t.Errorf("%q: %s is selected: %v, want %v", c.args, c.path, got, c.want)
		}
	}
}

func TestFilesFromReadsFilesAndStandardInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("x\ny/z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stdin string
		args  []string
		want  []string
	}{
		{"", []string{"--files-from", file}, []string{"x", "y"}},
		{"p\nq\n", []string{"--files-from=-"}, []string{"p", "q"}},
		{"p\nq\x00r\x00", []string{"--files-from=-", "--from0"}, []string{"p\nq", "r"}},
		{"", []string{"--files-from=-"}, nil},
	} {
		o := parsed(t, c.stdin, append(c.args, "a", "b")...)
		if o.Only == nil {
			t.Fatalf("%q: no list", c.args)
		}
		if got := o.Only.Root().Names(); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
	r := command(t, succeeds, "../x\n", "copy", "--files-from=-", "a", "b")
	if r.code != 2 || !strings.Contains(r.stderr, "--files-from: standard input: line 1: ") {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
}

func TestRulesOfABadFileAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, []byte("ok\n[\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, succeeds, "", "copy", "--exclude-from", file, "a", "b")
	if r.code != 2 || !strings.Contains(r.stderr, "rules': line 2: ") {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
}
