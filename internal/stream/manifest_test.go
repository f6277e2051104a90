//go:build linux

package stream

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// A manifest lists what holds the stream and nothing else.
func TestManifest(t *testing.T) {
	content := treetest.Pattern(300_000, 1)
	line := fmt.Sprintf("%x  ", digest(content))
	for name, c := range map[string]struct {
		outs   []string
		change func(*Options)
		want   []string // listed; none: it fails
	}{
		"an output":                {[]string{"out"}, nil, []string{"out"}},
		"outputs, in order":        {[]string{"b", "-", "a", "/dev/null"}, nil, []string{"a", "b"}},
		"the input":                {[]string{"/dev/null"}, nil, []string{"in"}},
		"the input, counted":       {[]string{"-"}, func(o *Options) { o.Count = &Amount{N: 300_000, Bytes: true} }, []string{"in"}},
		"a part of it":             {[]string{"out", "/dev/null"}, func(o *Options) { o.Skip.N = 1 }, []string{"out"}},
		"an output that is longer": {[]string{"long", "out"}, func(o *Options) { o.NoTruncate = true }, []string{"out"}},
		"none that is not longer":  {[]string{"long"}, func(o *Options) { o.NoTruncate, o.Skip = true, Amount{N: 1, Bytes: true} }, nil},
		"behind a seek":            {[]string{"out"}, func(o *Options) { o.Seek.N = 1 }, []string{"in"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "in", content)
			write(t, "long", treetest.Pattern(400_000, 2))
			stdout, err := os.Create("stdout")
			require.NoError(t, err)
			defer stdout.Close()
			o := stream(t.Context(), "in", c.outs, also(func(o *Options) { o.Manifest, o.Stdout = "m", stdout }, func(o *Options) {
				if c.change != nil {
					c.change(o)
				}
			}))
			require.NoError(t, o.err)
			if len(c.want) == 0 {
				require.Contains(t, o.texts(), "'m': manifest: it was not written, since there is nothing to list")
				require.NoFileExists(t, "m")
				return
			}
			require.Empty(t, o.events)
			require.Equal(t, "m", o.summary.Manifest)
			if name == "a part of it" {
				line = fmt.Sprintf("%x  ", digest(content[DefaultBlockSize:]))
			} else {
				line = fmt.Sprintf("%x  ", digest(content))
			}
			require.Equal(t, line+strings.Join(c.want, "\n"+line)+"\n", string(read(t, "m")))
		})
	}
}

// The input has changed while it was read: the digest has no known content.
func TestManifestOfAnInputThatChanges(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	in := write(t, filepath.Join(dir, "in"), treetest.Pattern(300_000, 1))
	sys := faults(func(op fsys.Op, _ string, nth int) error {
		if op == fsys.OpRead && nth == 0 {
			write(t, in, treetest.Pattern(300_000, 2))
		}
		return nil
	})
	o := streamIn(t.Context(), sys, in, []string{"/dev/null"}, func(o *Options) { o.Manifest = filepath.Join(dir, "m") })
	require.NoError(t, o.err)
	require.EqualValues(t, 1, o.summary.Errors)
	require.NoFileExists(t, filepath.Join(dir, "m"))
}

// Who reads the manifest opens what has the name.
func TestManifestOfAnOutputThatIsReplaced(t *testing.T) {
	dir := treetest.MemoryDir(t)
	in, out := write(t, filepath.Join(dir, "in"), []byte("content")), filepath.Join(dir, "out")
	for name, replace := range map[string]func(){
		"another": func() { require.NoError(t, os.Rename(write(t, filepath.Join(dir, "new"), []byte("another")), out)) },
		"none":    func() { require.NoError(t, os.Remove(out)) },
	} {
		t.Run(name, func(t *testing.T) {
			write(t, out, nil)
			sys := faults(func(op fsys.Op, _ string, nth int) error {
				if op == fsys.OpRead && nth == 0 {
					replace()
				}
				return nil
			})
			manifest := filepath.Join(dir, "m")
			o := streamIn(t.Context(), sys, in, []string{out}, func(o *Options) { o.Manifest, o.Count = manifest, &Amount{N: 3, Bytes: true} })
			require.NoError(t, o.err)
			require.Contains(t, o.texts(), "there is nothing to list")
			require.NoFileExists(t, manifest)
		})
	}
}

// Several digests in one file name their kind.
func TestManifestOfSeveralHashes(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "in", []byte("abc"))
	succeeds(t, stream(t.Context(), "in", []string{"out"}, func(o *Options) {
		o.Manifest, o.Hashes = "m", []hash.Algorithm{hash.SHA256, hash.MD5}
	}))
	require.Equal(t, "SHA256 (out) = ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"+
		"MD5 (out) = 900150983cd24fb0d6963f7d28e17f72\n", string(read(t, "m")))
}

// A run adds its lines to those of earlier ones, whatever the spelling of names, and a
// run that fails changes none.
func TestManifestIsMerged(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "in", []byte("abc"))
	absolute, err := filepath.Abs("c")
	require.NoError(t, err)
	for _, name := range []string{"./a", "b", "./-", absolute} {
		s := succeeds(t, stream(t.Context(), "in", []string{name}, func(o *Options) { o.Manifest = "m" }))
		require.Zero(t, s.Dropped)
	}
	line := fmt.Sprintf("%x  ", digest([]byte("abc")))
	want := line + "./-\n" + line + "./a\n" + line + absolute + "\n" + line + "b\n"
	require.Equal(t, want, string(read(t, "m")))

	o := stream(t.Context(), "in", []string{"/dev/full", "new"}, func(o *Options) { o.Manifest = "m" })
	require.NoError(t, o.err)
	require.NotZero(t, o.summary.Errors)
	require.Empty(t, o.summary.Manifest)
	require.Equal(t, want, string(read(t, "m")))

	require.NoError(t, os.Remove("b"))
	s := succeeds(t, stream(t.Context(), "in", []string{"./a"}, func(o *Options) { o.Manifest = "m" }))
	require.Equal(t, []any{"m", 3, 1}, []any{s.Manifest, s.Lines, s.Dropped})
}
