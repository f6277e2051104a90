package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// One bit of B flips, on the way from A to B to C. The copy to C reports it and does not copy
// the file.
func TestACorruptFileIsNotCopied(t *testing.T) {
	t.Parallel()
	for _, hashes := range [][]hash.Algorithm{{hash.SHA256}, {hash.BLAKE3, hash.SHA256, hash.XXH128}} {
		a, files := littleTree(t)
		dir := treetest.MemoryDir(t)
		b := filepath.Join(dir, "b")
		o := options(a, b)
		o.Hashes = hashes
		mustRun(t, o)
		for i, victim := range []string{"a", "b/big", "f/link"} { // inline, through lanes, one of two names
			spoil(t, filepath.Join(b, victim))
			c := []string{filepath.Join(dir, fmt.Sprint("c", i)), filepath.Join(dir, fmt.Sprint("c", i, "-2"))}
			o := verifying(VerifyDest, b, c...)
			o.Hashes = hashes
			progress := &counters.Set{CountTotals: true}
			out := runCounted(t, o, progress)
			want := []string{victim}
			if victim == "f/link" {
				want = append(want, "g")
			}
			require.Len(t, out.bad(), len(want))
			for i, path := range want {
				requireBroken(t, out.bad()[i], path)
			}
			s := out.summary
			require.EqualValues(t, len(want), s.Mismatches)
			require.Zero(t, s.Errors+s.Warnings+s.Conflicts)
			require.EqualValues(t, len(files)+len(hashes), progress.Files.Load())
			for j, target := range c {
				have := look(t, target)
				for path, content := range files {
					if slices.Contains(want, path) {
						require.NotContains(t, have, path)
					} else {
						require.True(t, have[path].content == string(content), path)
					}
				}
				require.Empty(t, aside(t, target), "it was never there")
				require.Len(t, s.Targets[j].Manifests, len(hashes))
				sums, err := os.ReadFile(filepath.Join(target, "SHA256SUMS"))
				require.NoError(t, err)
				lines := readManifest(t, string(sums))
				require.Len(t, lines, len(files)-len(want))
				for path, digest := range lines {
					content, err := os.ReadFile(filepath.Join(target, path))
					require.NoError(t, err)
					require.Equal(t, sha(string(content)), digest)
				}
			}
			spoil(t, filepath.Join(b, victim)) // the bit back
			o = options(b, c[1]+"-new")
			o.Hashes = hashes
			mustRun(t, o)
			require.Equal(t, len(files), requireWhole(t, c[1]+"-new", files))
			require.Len(t, listed(t, c[1]+"-new"), len(files), "the manifest takes the name")
		}
	}
}

// Every form of the source's manifest is read: a good file passes, and a bad one does not.
func TestEveryFormOfALineIsChecked(t *testing.T) {
	t.Parallel()
	good, bad := treetest.Pattern(100, 1), treetest.Pattern(bigSize, 2)
	for name, form := range map[string]string{
		"plain":             "%s  %s\n",
		"no line end":       "%s  %s",
		"binary":            "%s *%s\n",
		"carriage return":   "%s  %s\r\n",
		"dot":               "%s  ./%s\n",
		"dots":              "%s  .//./%s\n",
		"indented":          "   %s  %s\n",
		"escaped":           "\\%s  %s\n",
		"tagged":            "SHA256 (%[2]s) = %[1]s\n",
		"tagged by openssl": "SHA2-256(%[2]s)= %[1]s\n",
		"upper case":        "upper",
		"among others":      "# a comment\n\nno line at all\n%s  %s\nMD5 (x) = 0123\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"file", "d/e/file"} {
				line := func(content []byte) string {
					if form == "upper" {
						return strings.ToUpper(sha(string(content))) + "  " + path + "\n"
					}
					return fmt.Sprintf(form, sha(string(content)), path)
				}
				src, dst := sourceWithManifest(t, map[string][]byte{path: bad}, "SHA256SUMS", line(bad))
				doubts := 0 // about lines that are none
				if name == "among others" {
					doubts = 1
				}
				require.Len(t, runReported(t, options(src, dst)).bad(), doubts)
				require.FileExists(t, filepath.Join(dst, path))

				src, dst = sourceWithManifest(t, map[string][]byte{path: bad}, "SHA256SUMS", line(good))
				out := runReported(t, options(src, dst))
				require.Len(t, out.bad(), 1+doubts)
				requireBroken(t, out.bad()[doubts], path)
				require.NoFileExists(t, filepath.Join(dst, path))
			}
		})
	}
}

// The line of a name with every character that needs an escape is checked.
func TestTheLineOfAnEscapedNameIsChecked(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "names are bytes")
	name := "new\nline \\ back\rreturn"
	files := map[string][]byte{name: []byte("x"), "other": []byte("y")}
	src, dst := sourceWithManifest(t, files, "SHA256SUMS", `\`+sha("z")+`  new\nline \\ back\rreturn`+"\n")
	out := runReported(t, options(src, dst))
	require.Len(t, out.bad(), 1)
	requireBroken(t, out.bad()[0], name)
	require.NotContains(t, out.bad()[0].Err.Error(), "\n")
}

// Two equal lines of a file count as one. No file matches two different ones.
func TestTwoLinesOfOneFile(t *testing.T) {
	t.Parallel()
	right, wrong := sha("x"), sha("y")
	for name, c := range map[string]struct {
		lines  []string
		reason string
	}{
		"equal":                 {lines: []string{right, right, strings.ToUpper(right)}},
		"right, then wrong":     {lines: []string{right, wrong}, reason: "different digests"},
		"wrong, then right":     {lines: []string{wrong, right}, reason: "different digests"},
		"wrong twice":           {lines: []string{wrong, wrong}, reason: "not copied: its sha256 is " + right + ", but 'SHA256SUMS' lists " + wrong + "; restore it"},
		"right among very many": {lines: append(manyDigests(1000), right), reason: "different digests"},
		"right, then very many": {lines: append([]string{right}, manyDigests(1000)...), reason: "different digests"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for i, digest := range c.lines {
				fmt.Fprintf(&b, "%s  %sa\n", digest, strings.Repeat("./", i%2))
			}
			src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "SHA256SUMS", b.String())
			out := runReported(t, options(src, dst))
			if c.reason == "" {
				require.Empty(t, out.bad())
				require.FileExists(t, filepath.Join(dst, "a"))
				return
			}
			require.Len(t, out.bad(), 1)
			requireBroken(t, out.bad()[0], "a")
			require.ErrorContains(t, out.bad()[0].Err, c.reason)
			require.NoFileExists(t, filepath.Join(dst, "a"))
		})
	}
}

func manyDigests(n int) (list []string) {
	for i := range n {
		list = append(list, sha(fmt.Sprint(i)))
	}
	return list
}

// Each name of a file with several is compared with its line.
func TestHardLinksWithDifferentLines(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "it counts the names of a file as Unix does")
	right, wrong := sha("content"), sha("rotten")
	for mask := range 8 { // which of the three names have a wrong line
		for _, workers := range []int{1, 4} {
			var lines string
			var good, bad []string
			for i, name := range []string{"a", "d/b", "z"} {
				if mask>>i&1 != 0 {
					lines += wrong + "  " + name + "\n"
					bad = append(bad, name)
				} else {
					lines += right + "  " + name + "\n"
					good = append(good, name)
				}
			}
			src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("content")}, "SHA256SUMS", lines)
			require.NoError(t, os.Mkdir(filepath.Join(src, "d"), 0o755))
			require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "d/b")))
			require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "z")))
			o := options(src, dst, dst+"2")
			o.Workers = workers
			out := runReported(t, o)
			require.Len(t, out.bad(), len(bad))
			for i, name := range bad {
				requireBroken(t, out.bad()[i], name)
			}
			require.EqualValues(t, len(bad), out.summary.Mismatches)
			for _, target := range o.Targets {
				have := look(t, target)
				for _, name := range bad {
					require.NotContains(t, have, name)
				}
				for _, name := range good {
					require.EqualValues(t, len(good), have[name].links, "linked as far as they stand")
				}
				if len(bad) == 0 {
					continue
				}
				sums := readManifest(t, have["SHA256SUMS"].content)
				require.Len(t, sums, len(good))
			}
		}
	}
}

// The source has manifests of several hashes: all of them are checked.
func TestSeveralManifestsInTheSource(t *testing.T) {
	t.Parallel()
	hashes := []hash.Algorithm{hash.SHA256, hash.BLAKE3, hash.MD5}
	content := treetest.Pattern(bigSize, 1)
	files := map[string][]byte{"a": content}
	for broken := -1; broken < len(hashes); broken++ {
		src, dst := sourceWithManifest(t, files, "SHA512SUMS", digestOf(hash.SHA512, []byte("not ours to check"))+"  a\n")
		for i, a := range hashes {
			text := content
			if i == broken {
				text = []byte("another")
			}
			write(t, src, a.FileName(), []byte(digestOf(a, text)+"  a\n"), since)
		}
		o := options(src, dst)
		o.Hashes = hashes
		out := runReported(t, o)
		if broken < 0 {
			require.Empty(t, out.bad())
			require.FileExists(t, filepath.Join(dst, "a"))
			continue
		}
		require.Len(t, out.bad(), 1)
		requireBroken(t, out.bad()[0], "a")
		require.NoFileExists(t, filepath.Join(dst, "a"))
	}
	// A digest of the right length in the manifest of another hash is not an expected digest.
	src, dst := sourceWithManifest(t, files, "BLAKE3SUMS", sha("another")+"  a\n")
	mustRun(t, options(src, dst))
}

// Where the SHA256SUMS of the source is not Sealift's, sealift.sha256 beside it is. Both are
// checked.
func TestSealiftsManifestBesideASignedOneIsChecked(t *testing.T) {
	t.Parallel()
	dir := treetest.MemoryDir(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{"listed", "both", "ours"} {
		write(t, a, name, treetest.Pattern(100, name[0]), since)
	}
	signed := "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n"
	for _, name := range []string{"listed", "both"} {
		signed += sha(string(treetest.Pattern(100, name[0]))) + "  " + name + "\n"
	}
	write(t, a, "SHA256SUMS", []byte(signed+"-----BEGIN PGP SIGNATURE-----\n"), since)
	require.Empty(t, runReported(t, options(a, b)).mismatches())
	require.FileExists(t, filepath.Join(b, "sealift.sha256"))
	require.Empty(t, runReported(t, options(b, filepath.Join(dir, "c"))).mismatches())
	for _, victims := range [][]string{{"both"}, {"ours"}, {"SHA256SUMS"}, {"both", "listed", "ours"}} {
		for _, name := range victims {
			spoil(t, filepath.Join(b, name))
		}
		dst := filepath.Join(dir, strings.Join(victims, "-"))
		out := runReported(t, options(b, dst))
		var broken []string
		for _, e := range out.mismatches() {
			if e.Kind == event.Mismatch {
				requireBroken(t, e, e.Path)
				broken = append(broken, e.Path)
			}
		}
		require.Subset(t, broken, victims)
		require.True(t, len(broken) == len(victims) || victims[0] == "SHA256SUMS", "a rotten line speaks ill of a good file")
		for _, name := range victims {
			require.NoFileExists(t, filepath.Join(dst, name))
			spoil(t, filepath.Join(b, name)) // the bit back
		}
	}
}

// With --source-manifest=ignore or without hashes nothing is checked, and every file is
// copied. A dry run reports absent files, and does not read files that it would create.
func TestSourceManifestsThatAreNotChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(o *Options){
		"ignore":  func(o *Options) { o.SourceManifest = SourceManifestIgnore },
		"dry run": func(o *Options) { o.DryRun = true },
		"no hash": func(o *Options) { o.Hashes = nil },
		"other":   func(o *Options) { o.Hashes = []hash.Algorithm{hash.MD5} },
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "SHA256SUMS", sha("y")+"  a\n"+sha("z")+"  absent\n")
			o := options(src, dst)
			change(&o)
			out := runReported(t, o)
			if o.DryRun {
				require.Len(t, out.bad(), 1)
				require.ErrorContains(t, out.bad()[0].Err, "'SHA256SUMS' lists it, and it is absent")
			} else {
				require.Empty(t, out.bad())
			}
			want := 1
			if name == "no hash" || name == "other" { // the source's manifest is a file
				want = 2
			}
			require.EqualValues(t, want, out.summary.Files)
			require.Equal(t, !o.DryRun, fileExists(filepath.Join(dst, "a")))
		})
	}
}

// A text file that has the name of a manifest is copied as any other file.
func TestATextWithTheNameOfAManifestIsCopied(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n\n", "# nothing\n", "a text about SHA256SUMS\n", "\x00\x01\xff", strings.Repeat("x", 300_000)} {
		for _, mode := range []SourceManifestMode{SourceManifestCheck, SourceManifestPresent} {
			src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "SHA256SUMS", text)
			o := options(src, dst)
			o.SourceManifest = mode
			out := runReported(t, o)
			require.Empty(t, out.mismatches())
			have := look(t, dst)
			require.Equal(t, text, have["SHA256SUMS"].content)
			require.Equal(t, map[string]string{"SHA256SUMS": sha(text), "a": sha("x")}, readManifest(t, have["sealift.sha256"].content))
		}
	}
}

// A directory, a link or a special file that has the name of a manifest is not read as one.
func TestAManifestNameThatIsNoRegularFile(t *testing.T) {
	t.Parallel()
	linuxOnly(t, "Wine makes no symbolic links")
	outside := filepath.Join(treetest.MemoryDir(t), "outside")
	require.NoError(t, os.WriteFile(outside, []byte(sha("y")+"  a\n"), 0o600))
	for name, make := range map[string]func(path string) error{
		"directory":      func(path string) error { return os.Mkdir(path, 0o755) },
		"dangling link":  func(path string) error { return os.Symlink("nowhere", path) },
		"link elsewhere": func(path string) error { return os.Symlink(outside, path) },
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "other", "")
			require.NoError(t, make(filepath.Join(src, "SHA256SUMS")))
			var opened []string
			sys := faultfs.New(func(op fsys.Op, name string) error {
				if op == fsys.OpOpen {
					opened = append(opened, name)
				}
				return nil
			})
			o := options(src, dst)
			o.Workers = 1
			o.FS = sys
			require.Empty(t, runReported(t, o).mismatches())
			require.NotContains(t, opened, "outside")
			require.FileExists(t, filepath.Join(dst, "a"))
		})
	}
	// A link within the source is the manifest.
	src, dst := sourceWithManifest(t, map[string][]byte{"a": []byte("x")}, "sums/of-today", sha("y")+"  a\n")
	require.NoError(t, os.Symlink("sums/of-today", filepath.Join(src, "SHA256SUMS")))
	out := runReported(t, options(src, dst))
	require.Len(t, out.bad(), 1)
	requireBroken(t, out.bad()[0], "a")
}
