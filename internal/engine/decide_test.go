package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/filter"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
)

func allPolicies() []Policy {
	return []Policy{PolicyDefault, PolicyNever, PolicyAlways, PolicyUpdate, PolicyChecksum}
}

// The table of SPEC's overwrite policies: for each policy, what happens to a
// name that exists.
func TestDecide(t *testing.T) {
	at := func(sec int64) fsys.Time { return fsys.Time{Sec: sec} }
	regular := func(size, sec int64) fsys.Info {
		return fsys.Info{Kind: fsys.Regular, Size: size, Mtime: at(sec)}
	}
	other := func(kind fsys.Kind, sec int64) fsys.Info { return fsys.Info{Kind: kind, Mtime: at(sec)} }
	// A row's outcomes are in the order of allPolicies: keep, Leave, Replace,
	// !conflict, and ?x: compare, and x if the content differs.
	for _, c := range []struct {
		name      string
		src, have fsys.Info
		equal     bool
		want      string
	}{
		{"same size, same time", regular(5, 100), regular(5, 100), false, "k L R k ?R"},
		{"same size, older", regular(5, 100), regular(5, 50), false, "?R L R R ?R"},
		{"same size, newer", regular(5, 100), regular(5, 200), false, "?! L R R ?R"},
		{"other size, same time", regular(5, 100), regular(6, 100), false, "R L R R R"},
		{"other size, older", regular(5, 100), regular(6, 50), false, "R L R R R"},
		{"other size, newer", regular(5, 100), regular(6, 200), false, "! L R R R"},
		{"empty, same time", regular(0, 100), regular(0, 100), false, "k L R k ?R"},
		{"equal links", other(fsys.Symlink, 100), other(fsys.Symlink, 200), true, "k L R k k"},
		{"other link, older", other(fsys.Symlink, 100), other(fsys.Symlink, 50), false, "R L R R R"},
		{"other link, same time", other(fsys.Symlink, 100), other(fsys.Symlink, 100), false, "R L R R R"},
		{"other link, newer", other(fsys.Symlink, 100), other(fsys.Symlink, 200), false, "! L R R R"},
		{"fifos", other(fsys.Fifo, 100), other(fsys.Fifo, 50), true, "k L R k k"},
		{"link in a file's way", regular(5, 100), other(fsys.Symlink, 50), false, "! L R R R"},
		{"file in a link's way", other(fsys.Symlink, 100), regular(5, 50), false, "! L R R R"},
		{"fifo in a file's way", regular(5, 100), other(fsys.Fifo, 50), false, "! L R R R"},
		{"device in a fifo's way", other(fsys.Fifo, 100), other(fsys.CharDevice, 100), false, "! L R R R"},
		{"directory in a file's way", regular(5, 100), other(fsys.Directory, 50), false, "! L ! ! !"},
		{"directory in a link's way", other(fsys.Symlink, 100), other(fsys.Directory, 50), false, "! L ! ! !"},
	} {
		wants := strings.Fields(c.want)
		for i, policy := range allPolicies() {
			t.Run(c.name+"/"+policy.String(), func(t *testing.T) {
				r := &run{opts: &Options{Policy: policy}}
				v, err := r.decide(&fileSystem{granularity: 1}, c.src, c.have, func() (bool, error) {
					require.NotEqual(t, fsys.Regular, c.src.Kind)
					return c.equal, nil
				})
				require.NoError(t, err)
				require.Equal(t, wants[i], spell(v), "%+v", v)
				if v.conflict != nil {
					require.NotEmpty(t, v.conflict.Error())
					if c.have.Kind == fsys.Directory {
						require.Equal(t, PolicyDefault, v.conflict.hint, "no policy replaces a directory")
					} else {
						require.NotEqual(t, PolicyDefault, v.conflict.hint)
					}
				}
			})
		}
	}
}

func spell(v verdict) string {
	s := map[action]string{actKeep: "k", actLeave: "L", actReplace: "R", actConflict: "!", actCompare: "?"}[v.act]
	if v.act == actCompare {
		s += spell(verdict{act: v.differs})
	}
	return s
}

// The advice that a conflict gives must be true: that policy replaces.
func TestDecideAdvice(t *testing.T) {
	for _, have := range []fsys.Info{
		{Kind: fsys.Regular, Size: 6, Mtime: fsys.Time{Sec: 200}},
		{Kind: fsys.Regular, Size: 5, Mtime: fsys.Time{Sec: 200}},
		{Kind: fsys.Symlink, Mtime: fsys.Time{Sec: 200}},
	} {
		src := fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: fsys.Time{Sec: 100}}
		r := &run{opts: &Options{}}
		v, err := r.decide(&fileSystem{granularity: 1}, src, have, nil)
		require.NoError(t, err)
		require.NotNil(t, v.conflict)
		r.opts.Policy = v.conflict.hint
		v, err = r.decide(&fileSystem{granularity: 1}, src, have, nil)
		require.NoError(t, err)
		require.Equal(t, actReplace, v.act)
	}
}

// What a destination rounds away is no difference.
func TestDecideAtTheDestinationsGranularity(t *testing.T) {
	src := fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: fsys.Time{Sec: 101, Nsec: 999_999_999}}
	for _, c := range []struct {
		granularity int64
		have        fsys.Time
		want        action
	}{
		{1, fsys.Time{Sec: 101, Nsec: 999_999_999}, actKeep},
		{1, fsys.Time{Sec: 101, Nsec: 999_999_998}, actReplace},
		{100, fsys.Time{Sec: 101, Nsec: 999_999_900}, actKeep},
		{100, fsys.Time{Sec: 101, Nsec: 999_999_899}, actReplace},
		{1e9, fsys.Time{Sec: 101}, actKeep},
		{1e9, fsys.Time{Sec: 100}, actReplace},
		{2e9, fsys.Time{Sec: 100}, actKeep},
		{2e9, fsys.Time{Sec: 102}, actKeep},
		{2e9, fsys.Time{Sec: 98}, actReplace},
	} {
		r := &run{opts: &Options{Policy: PolicyUpdate}}
		v, err := r.decide(&fileSystem{granularity: c.granularity}, src, fsys.Info{Kind: fsys.Regular, Size: 5, Mtime: c.have}, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, v.act, "%+v", c)
	}
}

func TestDecidePassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	for _, policy := range allPolicies() {
		r := &run{opts: &Options{Policy: policy}}
		link := fsys.Info{Kind: fsys.Symlink}
		_, err := r.decide(&fileSystem{granularity: 1}, link, link, func() (bool, error) { return false, broken })
		if policy == PolicyNever {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, broken, policy)
	}
}

func TestModeFor(t *testing.T) {
	umask := fsys.Umask()
	for _, c := range []struct {
		preserve    Preserve
		src, have   uint32
		kind        fsys.Kind
		isNew, owns bool
		want        uint32
	}{
		{PreserveMode, 0o644, 0o600, fsys.Regular, true, true, 0o644},
		{PreserveMode, 0o644, 0o755, fsys.Regular, false, true, 0o644},
		{PreserveMode, 0o6755, 0o600, fsys.Regular, true, true, 0o6755},
		{PreserveMode, 0o6755, 0o600, fsys.Regular, true, false, 0o755},
		{PreserveMode, 0o1777, 0o700, fsys.Directory, true, false, 0o1777},
		{PreserveMode, 0o2755, 0o700, fsys.Directory, true, true, 0o2755},
		{PreserveMode, 0o2755, 0o700, fsys.Directory, true, false, 0o755},
		{PreserveMode, 0o2755, 0o2700, fsys.Directory, true, false, 0o2755},
		{PreserveMode, 0o755, 0o2700, fsys.Directory, true, false, 0o755},
		{PreserveNone, 0o2755, 0o2700, fsys.Directory, true, false, 0o2755 &^ umask},
		{PreserveNone, 0o6777, 0o600, fsys.Regular, true, true, 0o777 &^ umask},
		{PreserveNone, 0o666, 0o600, fsys.Regular, true, false, 0o666 &^ umask},
		{PreserveNone, 0o666, 0o400, fsys.Regular, false, false, 0o400},
		{PreserveNone, 0o777, 0o700, fsys.Directory, true, true, 0o777 &^ umask},
	} {
		r := &run{opts: &Options{Preserve: c.preserve}}
		got := r.modeFor(fsys.Info{Kind: c.kind, Mode: c.src}, fsys.Info{Mode: c.have}, c.isNew, c.owns)
		require.Equal(t, c.want, got, "%+v: %o, want %o", c, got, c.want)
	}
}

func TestResolveRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	require.NoError(t, os.MkdirAll(at("src", "sub"), 0o755))
	require.NoError(t, os.MkdirAll(at("other"), 0o755))
	require.NoError(t, os.WriteFile(at("file"), nil, 0o644))
	require.NoError(t, os.WriteFile(at("file2"), nil, 0o644))
	links := os.Symlink(at("src", "sub"), at("into-src")) == nil
	if _, err := os.Lstat(at("into-src")); err != nil {
		links = false // Wine takes the call, and makes none
	}
	if links {
		require.NoError(t, os.Symlink(at("nothing"), at("dangling")))
		require.NoError(t, os.Symlink(at("other"), at("other-link")))
	}
	hardLinks := os.Link(at("file"), at("file-link")) == nil
	sha := []hash.Algorithm{hash.SHA256}
	list := &filter.List{}
	slash := string(filepath.Separator)
	for name, c := range map[string]struct {
		o    Options
		skip bool
	}{
		"nothing":                       {o: Options{}},
		"no target":                     {o: Options{Source: at("src")}},
		"empty target":                  {o: Options{Source: at("src"), Targets: []string{""}}},
		"no source":                     {o: Options{Source: at("none"), Targets: []string{at("new")}}},
		"itself":                        {o: Options{Source: at("src"), Targets: []string{at("src")}}},
		"itself, spelled otherwise":     {o: Options{Source: at("src"), Targets: []string{at("src") + slash + "sub" + slash + ".."}}},
		"inside":                        {o: Options{Source: at("src"), Targets: []string{at("src", "sub")}}},
		"inside, new":                   {o: Options{Source: at("src"), Targets: []string{at("src", "x", "y")}}},
		"inside through a link":         {o: Options{Source: at("src"), Targets: []string{at("into-src", "new")}}, skip: !links},
		"the second inside":             {o: Options{Source: at("src"), Targets: []string{at("new"), at("src", "new")}}},
		"twice":                         {o: Options{Source: at("src"), Targets: []string{at("other"), at("other")}}},
		"twice, new":                    {o: Options{Source: at("src"), Targets: []string{at("new"), at("new") + slash}}},
		"twice, through a link":         {o: Options{Source: at("src"), Targets: []string{at("other"), at("other-link")}}, skip: !links},
		"twice, new, through a link":    {o: Options{Source: at("src"), Targets: []string{at("other", "x"), at("other-link", "x")}}, skip: !links},
		"twice, one file":               {o: Options{Source: at("file"), Targets: []string{at("other"), at("other", "file")}}},
		"file in a directory's place":   {o: Options{Source: at("src"), Targets: []string{at("file")}}},
		"dangling link":                 {o: Options{Source: at("src"), Targets: []string{at("dangling")}}, skip: !links},
		"below a file":                  {o: Options{Source: at("src"), Targets: []string{at("file", "x")}}},
		"a file to itself":              {o: Options{Source: at("file"), Targets: []string{at("file")}}},
		"a file to its directory":       {o: Options{Source: at("file"), Targets: []string{dir}}},
		"a file to its hard link":       {o: Options{Source: at("file"), Targets: []string{at("file-link")}}, skip: !hardLinks},
		"a file with a slash":           {o: Options{Source: at("file"), Targets: []string{at("file2") + slash}}},
		"a file below a file":           {o: Options{Source: at("file"), Targets: []string{at("file2", "x")}}},
		"a file with a filter":          {o: Options{Source: at("file"), Targets: []string{at("new")}, Filter: list}},
		"device":                        {o: Options{Source: at("src"), Targets: []string{os.DevNull}}, skip: slash != "/"},
		"from a device":                 {o: Options{Source: os.DevNull, Targets: []string{at("new")}}, skip: slash != "/"},
		"manifest without hash":         {o: Options{Source: at("src"), Targets: []string{at("new")}, Manifest: "m"}},
		"manifest of two hashes":        {o: Options{Source: at("src"), Targets: []string{at("new")}, Manifest: "m", Hashes: []hash.Algorithm{hash.SHA256, hash.MD5}}},
		"absolute manifest, two places": {o: Options{Source: at("src"), Targets: []string{at("new"), at("new2")}, Manifest: at("m"), Hashes: sha}},
		"manifest is a directory":       {o: Options{Source: at("src"), Targets: []string{at("other")}, Manifest: at("src"), Hashes: sha}},
		"manifest ends in a slash":      {o: Options{Source: at("src"), Targets: []string{at("new")}, Manifest: "m" + slash, Hashes: sha}},
		"manifest is the destination":   {o: Options{Source: at("file"), Targets: []string{at("new")}, Manifest: "new", Hashes: sha}},
		"no room for the manifest":      {o: Options{Source: at("file"), Targets: []string{at(strings.Repeat("n", 250))}, Hashes: sha}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.skip {
				t.Skip("needs links, or a system with device files")
			}
			_, err := resolve(&c.o)
			var refused *failure.RefusedError
			require.ErrorAs(t, err, &refused)
			require.NotContains(t, refused.Reason, "\n")
			for _, made := range []string{at("new"), at("new2"), at("src", "x")} {
				require.NoFileExists(t, made)
				require.NoDirExists(t, made)
			}
		})
	}
}

func TestResolveAccepts(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	require.NoError(t, os.MkdirAll(at("src"), 0o755))
	require.NoError(t, os.MkdirAll(at("other"), 0o755))
	require.NoError(t, os.MkdirAll(at("src-2"), 0o755))
	require.NoError(t, os.WriteFile(at("file"), nil, 0o644))
	slash := string(filepath.Separator)
	for _, c := range []struct {
		source, target string
		dir, name      string
		exists         bool
	}{
		{at("src"), at("new", "deep"), at("new", "deep"), "", false},
		{at("src"), at("other"), at("other"), "", true},
		{at("src"), dir, dir, "", true}, // the source is in it, which is another thing
		{at("src"), at("src-2"), at("src-2"), "", true},
		{at("file"), at("other"), at("other"), "file", true},
		{at("file"), at("other", "name"), at("other"), "name", true},
		{at("file"), at("new") + slash, at("new") + slash, "file", false},
		{at("file"), at("new", "name"), at("new"), "name", false},
	} {
		rt, err := resolve(&Options{Source: c.source, Targets: []string{c.target}})
		require.NoError(t, err, fmt.Sprint(c))
		require.Len(t, rt.targets, 1)
		d := rt.targets[0]
		require.Equal(t, []any{c.target, filepath.Clean(c.dir), c.name, c.exists}, []any{d.given, filepath.Clean(d.dir), d.name, d.exists})
	}
}
