//go:build linux

package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/metadata"
	"github.com/seed65876f4f/sealift/internal/policy"
	"github.com/seed65876f4f/sealift/internal/treetest"
)

// The copy of any tree with any options equals the source and has a manifest of exactly its
// files. A second run copies nothing. After any changes of the source, a policy that replaces
// makes the copy equal again.
func TestPropertyCopy(t *testing.T) {
	checkNew(t, 50, func(t *rapid.T) {
		c := newTrial(t, "")
		defer c.remove()
		require.NoError(t, treetest.Make(c.source, c.tree(3)))

		summary := c.run(c.options)
		require.Zero(t, summary.Skipped, "skipped by a first run")
		c.compare(true)
		first := c.checkManifests()

		summary = c.run(c.options)
		require.Zero(t, summary.Files, "files copied by a second run")
		require.Zero(t, summary.Links+summary.Specials+summary.HardLinks, "links copied by a second run")
		c.compare(false) // the root is not this run's
		require.Equal(t, first, c.checkManifests(), "manifests of a second run")

		again := c.options
		again.Policy = rapid.SampledFrom([]policy.Policy{policy.Always, policy.Checksum}).Draw(t, "policy")
		for range rapid.IntRange(1, 4).Draw(t, "mutations") {
			c.mutate(again.Policy == policy.Always)
		}
		c.run(again)
		c.compare(false)
		c.checkManifests()
	})
}

// trial is one tree and its copies.
type trial struct {
	*rapid.T
	dir, source string
	options     engine.Options
	block       int
	fresh       int // names that mutate has made
}

// newTrial draws the options of a trial, which is in a new directory below top; "" is the
// system's for temporary files.
func newTrial(t *rapid.T, top string) *trial {
	dir, err := os.MkdirTemp(top, "property")
	require.NoError(t, err)
	c := &trial{T: t, dir: dir, source: filepath.Join(dir, "source")}
	c.block = rapid.SampledFrom([]int{4 << 10, 4<<10 + 1, 12 << 10, 128 << 10}).Draw(t, "block")
	workers := rapid.IntRange(1, 8).Draw(t, "workers")
	c.options = engine.Options{
		Source: c.source,
		Records: engine.Records{Hashes: rapid.SampledFrom([][]hash.Algorithm{
			{hash.SHA256}, {hash.SHA256}, {hash.MD5, hash.SHA256}, {hash.SHA256, hash.BLAKE3, hash.XXH128, hash.SHA512},
		}).Draw(t, "hashes")},
		Sync:      dest.SyncNone,
		Reflink:   rapid.SampledFrom([]engine.ReflinkMode{engine.ReflinkAuto, engine.ReflinkNever}).Draw(t, "reflink"),
		Sparse:    rapid.SampledFrom([]engine.SparseMode{engine.SparseAuto, engine.SparseAlways, engine.SparseNever}).Draw(t, "sparse"),
		Preserve:  metadata.PreserveAll,
		Resources: engine.Resources{BlockSize: c.block, QueueSize: rapid.SampledFrom([]int{1, 2, 10}).Draw(t, "queue"), Workers: workers, Memory: int64(c.block) * int64(rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "blocks"))},
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "targets") {
		c.options.Targets = append(c.options.Targets, filepath.Join(dir, fmt.Sprintf("target%d", i)))
	}
	return c
}

// remove takes the trees away, whatever their modes.
func (c *trial) remove() {
	_ = filepath.WalkDir(c.dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(c.dir)
}

func (c *trial) run(o engine.Options) *engine.Summary {
	var reports []string
	o.Report = func(e event.Event) {
		empty := e.Kind == event.Warning && strings.HasSuffix(e.Err.Error(), " is empty; is it mounted?")
		if e.Kind != event.Copied && e.Kind != event.Skipped && !empty {
			reports = append(reports, fmt.Sprint(e.Kind, " ", e.Path, ": ", e.Err))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a deadlock is a failure, and not the end of all tests
	defer cancel()
	summary, err := engine.Run(ctx, &o, &counters.Set{CountTotals: true})
	require.NoError(c, err)
	require.Empty(c, reports)
	return summary
}

func (c *trial) compare(root bool) {
	var sums []string
	for _, a := range hash.Algorithms() {
		sums = append(sums, strings.ToUpper(string(a))+"SUMS")
	}
	for _, target := range c.options.Targets {
		differences, err := treetest.Diff(c.source, target, treetest.Options{
			Ignore: sums, Root: root, NoHoles: c.options.Sparse == engine.SparseNever,
		})
		require.NoError(c, err)
		require.Empty(c, differences)
	}
}

// checkManifests compares the SHA-256 manifest of each target with digests of
// its own making, and returns all manifests by path.
func (c *trial) checkManifests() map[string]string {
	var want []string
	require.NoError(c, filepath.WalkDir(c.source, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(content)
			rel, _ := filepath.Rel(c.source, p)
			want = append(want, hex.EncodeToString(sum[:])+"  "+rel)
		}
		return err
	}))
	byPath := func(a, b string) int { return strings.Compare(a[66:], b[66:]) }
	slices.SortFunc(want, byPath)
	manifests := map[string]string{}
	for _, target := range c.options.Targets {
		for _, a := range c.options.Hashes {
			p := filepath.Join(target, strings.ToUpper(string(a))+"SUMS")
			content, err := os.ReadFile(p)
			if len(want) == 0 { // no program takes an empty list
				require.ErrorIs(c, err, fs.ErrNotExist)
				continue
			}
			require.NoError(c, err)
			manifests[p] = string(content)
			require.Equal(c, len(want), strings.Count(string(content), "\n"), "lines of %s", p)
		}
		var got []string
		for line := range strings.Lines(manifests[filepath.Join(target, "SHA256SUMS")]) {
			got = append(got, unescape(strings.TrimSuffix(line, "\n")))
		}
		require.True(c, slices.IsSortedFunc(got, byPath), "order of lines %q", got)
		require.Equal(c, want, got)
		c.sha256sum(target)
	}
	return manifests
}

// sha256sum asks the tool that the manifest is made for.
func (c *trial) sha256sum(target string) {
	tool, err := exec.LookPath("sha256sum")
	if _, missing := os.Stat(filepath.Join(target, "SHA256SUMS")); err != nil || missing != nil {
		return
	}
	cmd := exec.Command(tool, "--check", "--strict", "--quiet", "SHA256SUMS")
	cmd.Dir = target
	out, err := cmd.CombinedOutput()
	require.NoError(c, err, "sha256sum: %s", out)
}

func readAll(c *trial, p string) string {
	content, err := os.ReadFile(p)
	require.NoError(c, err)
	return string(content)
}

// unescape reads a line as sha256sum writes it. A file named "-" is listed as
// "./-", because sha256sum takes the bare name for standard input.
func unescape(line string) string {
	if stem, ok := strings.CutSuffix(line, "  ./-"); ok {
		return stem + "  -"
	}
	rest, escaped := strings.CutPrefix(line, `\`)
	if !escaped {
		return line
	}
	return strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\\`, `\`).Replace(rest)
}

// tree draws what is in a directory.
func (c *trial) tree(depth int) treetest.Dir {
	tree := treetest.Dir{}
	for range rapid.IntRange(0, 6).Draw(c.T, "entries") {
		name := c.name()
		if _, taken := tree[name]; taken {
			continue
		}
		switch kind := rapid.IntRange(0, 9).Draw(c.T, "kind"); {
		case kind < 5:
			tree[name] = c.file()
		case kind == 5:
			tree[name] = treetest.Symlink(rapid.SampledFrom([]string{"a", "../..", "/etc/passwd", "no such", "\xff\n"}).Draw(c.T, "link"), c.mtime())
		case kind == 6:
			tree[name] = treetest.Fifo(c.mode(), c.mtime())
		case depth > 0:
			tree[name] = treetest.Directory(c.tree(depth-1),
				treetest.Mode(rapid.SampledFrom([]uint32{0o755, 0o700, 0o555, 0o500, 0o2775, 0o1777}).Draw(c.T, "directory mode")), c.mtime())
		}
	}
	return tree
}

// name draws from what shells, manifests and terminals stumble over.
func (c *trial) name() string {
	pieces := []string{
		"a", "b", "A", "file.txt", "\n", `\`, "\r", " ", "-", "--x", "*", "?", "\xff", "\xc3\x28", "é", "e\u0301", "'", `"`, "$x", "~", "\t", ".", "..", "\x1b[1m", "\x01", "#", "0",
	}
	name := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 4).Draw(c.T, "name"), "")
	if name == "." || name == ".." {
		return "dots"
	}
	return name
}

func (c *trial) file() treetest.Node {
	options := []treetest.Option{c.mode(), c.mtime()}
	if group := rapid.IntRange(0, 7).Draw(c.T, "group"); group < 2 { // of hard links; its first name says what it is
		options = append(options, treetest.Linked(fmt.Sprint(group)))
	}
	size := c.size()
	if rapid.Bool().Draw(c.T, "holes") {
		middle := min(int64(c.block)/2, size)
		return treetest.Sparse(size, map[int64]string{middle: string(noise(min(100, size-middle), byte(size)))}, options...)
	}
	return treetest.File(string(noise(size, rapid.Byte().Draw(c.T, "seed"))), options...)
}

// size draws from around the edges of blocks.
func (c *trial) size() int64 {
	return int64(rapid.SampledFrom([]int{
		0, 1, c.block - 1, c.block, c.block + 1, 2 * c.block, 3*c.block + 17, c.block/2 - 1, c.block / 2, c.block/2 + 1,
	}).Draw(c.T, "size"))
}

// noise is not repeating, so that a block in the wrong place is seen.
func noise(size int64, seed byte) []byte { return treetest.Pattern(int(size), seed) }

func (c *trial) mode() treetest.Option {
	return treetest.Mode(rapid.SampledFrom([]uint32{0o644, 0o600, 0o444, 0o755, 0o400, 0o4755, 0o2711}).Draw(c.T, "mode"))
}

func (c *trial) mtime() treetest.Option {
	times := []time.Time{
		time.Unix(0, 0), time.Unix(-1, 999999999), time.Unix(-300000000, 1), time.Unix(1e9, 123456789),
		time.Unix(1e9, 123456788), time.Unix(1<<31, 0), time.Unix(4102444800, 5),
	}
	times = slices.DeleteFunc(times, func(at time.Time) bool { // what the test cannot set with 32 bits
		_, err := unix.TimeToTimespec(at)
		return err != nil
	})
	return treetest.Mtime(rapid.SampledFrom(times).Draw(c.T, "mtime"))
}

// mutate makes one change of the source that a copy can follow: it removes no name, and
// replaces no other entry by a directory.
func (c *trial) mutate(unlinks bool) {
	var files, others, dirs []string
	require.NoError(c, filepath.WalkDir(c.source, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, p)
		case d.Type().IsRegular():
			files = append(files, p)
		default:
			others = append(others, p)
		}
		return nil
	}))
	within := func(p string, change func() error) {
		dir := path.Dir(p)
		info, err := os.Stat(dir)
		require.NoError(c, err)
		require.NoError(c, os.Chmod(dir, 0o700))
		require.NoError(c, change())
		require.NoError(c, os.Chmod(dir, info.Mode()))
	}
	c.fresh++
	added := filepath.Join(rapid.SampledFrom(dirs).Draw(c.T, "directory"), fmt.Sprintf("added %d", c.fresh))
	if len(files) == 0 {
		within(added, func() error { return treetest.Make(added, c.file()) })
		return
	}
	file := rapid.SampledFrom(files).Draw(c.T, "changed")
	info, err := os.Stat(file)
	require.NoError(c, err)
	switch rapid.IntRange(0, 7).Draw(c.T, "mutation") {
	case 0:
		within(added, func() error { return treetest.Make(added, c.file()) })
	case 1: // another content of any size
		require.NoError(c, overwrite(file, noise(c.size(), 7)))
	case 2: // another content, and nothing else shows it
		content := readAll(c, file)
		if len(content) > 0 {
			changed := []byte(content)
			changed[len(changed)-1] ^= 1
			require.NoError(c, overwrite(file, changed))
			require.NoError(c, os.Chtimes(file, info.ModTime(), info.ModTime()))
		}
	case 3:
		require.NoError(c, os.Chmod(file, 0o640))
	case 4:
		require.NoError(c, os.Chtimes(file, time.Unix(5, 5), time.Unix(-5, 5)))
	case 5: // a further name
		within(added, func() error { return os.Link(file, added) })
	case 6: // another kind
		if unlinks {
			within(file, func() error {
				return errors.Join(os.Remove(file), os.Symlink("instead", file))
			})
		}
	case 7: // a file of its own, or instead of something special
		if len(others) > 0 {
			file = rapid.SampledFrom(others).Draw(c.T, "other")
		} else if !unlinks {
			return
		}
		within(file, func() error {
			return errors.Join(os.Remove(file), treetest.Make(file, c.file()))
		})
	}
}

// overwrite changes a file in place, whatever its mode.
func overwrite(p string, content []byte) error {
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	if err := os.Chmod(p, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(content).WriteTo(f)
	return errors.Join(err, f.Close(), os.Chmod(p, info.Mode()))
}

// checkNew checks the property usual times, or as often as SEALIFT_HISTORIES says. Each run of the
// test draws other values.
func checkNew(t *testing.T, usual int, property func(*rapid.T)) {
	if given, err := strconv.Atoi(os.Getenv("SEALIFT_HISTORIES")); err == nil {
		usual = given
	}
	setFlag(t, "rapid.checks", strconv.Itoa(usual))
	rapid.Check(t, property)
}

// setFlag sets a flag of the test binary until the test ends.
func setFlag(t *testing.T, name, value string) {
	before := flag.Lookup(name).Value.String()
	require.NoError(t, flag.Set(name, value))
	t.Cleanup(func() { require.NoError(t, flag.Set(name, before)) })
}
