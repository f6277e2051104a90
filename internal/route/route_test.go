package route_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/route"
)

func TestResolveRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	require.NoError(t, os.MkdirAll(at("src", "sub"), 0o755))
	require.NoError(t, os.MkdirAll(at("other"), 0o755))
	require.NoError(t, os.WriteFile(at("file"), nil, 0o644))
	require.NoError(t, os.WriteFile(at("file2"), nil, 0o644))
	links := os.Symlink(at("src", "sub"), at("into-src")) == nil
	if _, err := os.Lstat(at("into-src")); err != nil {
		links = false // Wine accepts the call, but makes no link
	}
	if links {
		require.NoError(t, os.Symlink(at("nothing"), at("dangling")))
		require.NoError(t, os.Symlink(at("other"), at("other-link")))
	}
	hardLinks := os.Link(at("file"), at("file-link")) == nil
	sha := []hash.Algorithm{hash.SHA256}
	slash := string(filepath.Separator)
	for name, c := range map[string]struct {
		o    route.Options
		skip bool
	}{
		"nothing":                       {o: route.Options{}},
		"no target":                     {o: route.Options{Source: at("src")}},
		"empty target":                  {o: route.Options{Source: at("src"), Targets: []string{""}}},
		"no source":                     {o: route.Options{Source: at("none"), Targets: []string{at("new")}}},
		"itself":                        {o: route.Options{Source: at("src"), Targets: []string{at("src")}}},
		"itself, spelled otherwise":     {o: route.Options{Source: at("src"), Targets: []string{at("src") + slash + "sub" + slash + ".."}}},
		"inside":                        {o: route.Options{Source: at("src"), Targets: []string{at("src", "sub")}}},
		"inside, new":                   {o: route.Options{Source: at("src"), Targets: []string{at("src", "x", "y")}}},
		"inside through a link":         {o: route.Options{Source: at("src"), Targets: []string{at("into-src", "new")}}, skip: !links},
		"the second inside":             {o: route.Options{Source: at("src"), Targets: []string{at("new"), at("src", "new")}}},
		"twice":                         {o: route.Options{Source: at("src"), Targets: []string{at("other"), at("other")}}},
		"twice, new":                    {o: route.Options{Source: at("src"), Targets: []string{at("new"), at("new") + slash}}},
		"twice, through a link":         {o: route.Options{Source: at("src"), Targets: []string{at("other"), at("other-link")}}, skip: !links},
		"twice, new, through a link":    {o: route.Options{Source: at("src"), Targets: []string{at("other", "x"), at("other-link", "x")}}, skip: !links},
		"twice, one file":               {o: route.Options{Source: at("file"), Targets: []string{at("other"), at("other", "file")}}},
		"file in a directory's place":   {o: route.Options{Source: at("src"), Targets: []string{at("file")}}},
		"dangling link":                 {o: route.Options{Source: at("src"), Targets: []string{at("dangling")}}, skip: !links},
		"below a file":                  {o: route.Options{Source: at("src"), Targets: []string{at("file", "x")}}},
		"a file to itself":              {o: route.Options{Source: at("file"), Targets: []string{at("file")}}},
		"a file to its directory":       {o: route.Options{Source: at("file"), Targets: []string{dir}}},
		"a file to its hard link":       {o: route.Options{Source: at("file"), Targets: []string{at("file-link")}}, skip: !hardLinks},
		"a file with a slash":           {o: route.Options{Source: at("file"), Targets: []string{at("file2") + slash}}},
		"a file below a file":           {o: route.Options{Source: at("file"), Targets: []string{at("file2", "x")}}},
		"a file with a filter":          {o: route.Options{Source: at("file"), Targets: []string{at("new")}, Filtered: true}},
		"device":                        {o: route.Options{Source: at("src"), Targets: []string{os.DevNull}}, skip: slash != "/"},
		"from a device":                 {o: route.Options{Source: os.DevNull, Targets: []string{at("new")}}, skip: slash != "/"},
		"manifest without hash":         {o: route.Options{Source: at("src"), Targets: []string{at("new")}, Manifest: "m"}},
		"manifest of two hashes":        {o: route.Options{Source: at("src"), Targets: []string{at("new")}, Manifest: "m", Hashes: []hash.Algorithm{hash.SHA256, hash.MD5}}},
		"absolute manifest, two places": {o: route.Options{Source: at("src"), Targets: []string{at("new"), at("new2")}, Manifest: at("m"), Hashes: sha}},
		"manifest is a directory":       {o: route.Options{Source: at("src"), Targets: []string{at("other")}, Manifest: at("src"), Hashes: sha}},
		"manifest ends in a slash":      {o: route.Options{Source: at("src"), Targets: []string{at("new")}, Manifest: "m" + slash, Hashes: sha}},
		"manifest is the destination":   {o: route.Options{Source: at("file"), Targets: []string{at("new")}, Manifest: "new", Hashes: sha}},
		"no room for the manifest":      {o: route.Options{Source: at("file"), Targets: []string{at(strings.Repeat("n", 250))}, Hashes: sha}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.skip {
				t.Skip("needs links, or a system with device files")
			}
			_, err := route.Resolve(c.o)
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
		{at("src"), dir, dir, "", true}, // the destination contains the source, which is allowed
		{at("src"), at("src-2"), at("src-2"), "", true},
		{at("file"), at("other"), at("other"), "file", true},
		{at("file"), at("other", "name"), at("other"), "name", true},
		{at("file"), at("new") + slash, at("new") + slash, "file", false},
		{at("file"), at("new", "name"), at("new"), "name", false},
	} {
		rt, err := route.Resolve(route.Options{Source: c.source, Targets: []string{c.target}})
		require.NoError(t, err, fmt.Sprint(c))
		require.Len(t, rt.Destinations, 1)
		d := rt.Destinations[0]
		require.Equal(t, []any{c.target, filepath.Clean(c.dir), c.name, c.exists}, []any{d.Given, filepath.Clean(d.Dir), d.Name, d.Exists})
	}
}
