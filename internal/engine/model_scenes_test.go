//go:build linux

package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// scene is a snapshot with one destination.
func scene(source, dest tree) snapshot {
	return snapshot{source: source, single: tree{"a": text("one", 1)}, places: []place{{exists: true, tree: dest}}}
}

func text(content string, hour int) node {
	return node{kind: file, data: content, mtime: at(hour), mode: usualMode}
}

// sums is a manifest of Sealift's form of files that have a path and a content each.
func sums(of ...string) node {
	l := lines{}
	for i := 0; i < len(of); i += 2 {
		l[of[i]] = digestOf(hash.SHA256, of[i+1])
	}
	return text(l.render(), 2)
}

// The rules of the contract, one by one, in the model.
func TestModelRules(t *testing.T) {
	t.Parallel()
	usual := command{Hashes: []hash.Algorithm{hash.SHA256}, Places: 1, Workers: 1}
	with := func(change func(c *command)) command {
		c := usual
		change(&c)
		return c
	}
	both := with(func(c *command) { c.Hashes = []hash.Algorithm{hash.SHA256, hash.MD5} })
	one := with(func(c *command) { c.Single = "a" })
	for _, test := range []struct {
		name    string
		source  tree
		dest    tree
		command command
		exit    int
		want    tree // entries of the destination that the rule is about; a node without a kind must be absent
	}{
		{name: "a first copy lists its files", source: tree{"b": text("two", 1), "a": text("one", 1)}, command: usual,
			want: tree{"a": text("one", 1), "SHA256SUMS": sums("a", "one", "b", "two")}},
		{name: "a foreign manifest is refused", source: tree{"a": text("one", 1)}, dest: tree{"SHA256SUMS": text("text\n", 1)}, command: usual,
			exit: 2, want: tree{"a": {}}},
		{name: "a signed manifest is refused", source: tree{"a": text("one", 1)},
			dest: tree{"SHA256SUMS": sums("z", "z"), "SHA256SUMS.asc": text("", 1)}, command: usual, exit: 2},
		{name: "a name that the source has in another case is taken", source: tree{"sha256sums": text("text", 1)}, command: usual,
			want: tree{"SHA256SUMS": {}, "sealift.sha256": sums("sha256sums", "text")}},
		{name: "a later level with a manifest is kept", source: tree{"a": text("one", 1)}, dest: tree{"sealift-2.sha256": sums()}, command: usual,
			want: tree{"SHA256SUMS": {}, "sealift-2.sha256": sums("a", "one")}},
		{name: "a chain of copies is byte-identical", source: tree{"a": text("one", 1), "SHA256SUMS": sums("a", "one")}, command: usual,
			want: tree{"SHA256SUMS": sums("a", "one"), "sealift.sha256": {}}},
		{name: "a chain with one wrong manifest of two is not", source: tree{
			"a": text("one", 1), "SHA256SUMS": sums("a", "one"), "MD5SUMS": text("text\n", 1),
		}, command: both, want: tree{
			"MD5SUMS": text("text\n", 1), "sealift.sha256": sums("a", "one", "SHA256SUMS", sums("a", "one").data, "MD5SUMS", "text\n"),
		}},
		{name: "a manifest whose name the source takes moves aside", source: tree{"SHA256SUMS": text("text\n", 1)},
			dest: tree{"z": text("z", 1), "SHA256SUMS": sums("z", "z")}, command: usual,
			want: tree{"SHA256SUMS": text("text\n", 1), "sealift.sha256": sums("z", "z", "SHA256SUMS", "text\n")}},
		{name: "a skipped file keeps its line, right or wrong", source: tree{"a": text("one", 1)},
			dest: tree{"a": text("two", 1), "SHA256SUMS": sums("a", "six")}, command: usual,
			want: tree{"a": text("two", 1), "SHA256SUMS": sums("a", "six")}},
		{name: "a skipped file without a line that differs is a conflict", source: tree{"a": text("one", 1)},
			dest: tree{"a": text("two", 1)}, command: usual, exit: 4, want: tree{"a": text("two", 1), "SHA256SUMS": {}}},
		{name: "a damaged file is replaced", source: tree{"a": text("one", 1)},
			dest: tree{"a": text("two", 1), "SHA256SUMS": sums("a", "one")}, command: both,
			want: tree{"a": text("one", 1), "SHA256SUMS": sums("a", "one")}},
		{name: "lines of other paths are kept while they are files", source: tree{},
			dest: tree{"z": text("changed", 1), "d": {kind: directory}, "SHA256SUMS": sums("z", "z", "gone", "", "d", "")}, command: usual,
			want: tree{"SHA256SUMS": sums("z", "z")}},
		{name: "a manifest without a line is removed", source: tree{}, dest: tree{"SHA256SUMS": sums("gone", "")}, command: usual,
			want: tree{"SHA256SUMS": {}}},
		{name: "never keeps lines and makes none", source: tree{"a": text("one", 1), "b": text("two", 1), "c": text("six", 1)},
			dest:    tree{"a": text("two", 3), "b": text("two", 1), "SHA256SUMS": sums("a", "one")},
			command: with(func(c *command) { c.Policy = engine.PolicyNever }), want: tree{"SHA256SUMS": sums("a", "one", "c", "six")}},
		{name: "protect replaces neither what is older nor what is damaged", source: tree{"a": text("one", 2), "b": text("three", 2), "c": text("six", 1)},
			dest:    tree{"a": text("two", 1), "b": text("four", 1), "c": text("bad", 1), "SHA256SUMS": sums("c", "six")},
			command: with(func(c *command) { c.Policy, c.Hashes = engine.PolicyProtect, both.Hashes }), exit: 4,
			want: tree{"a": text("two", 1), "b": text("four", 1), "c": text("bad", 1)}},
		{name: "a newer destination is a conflict", source: tree{"a": text("three", 1)}, dest: tree{"a": text("one", 2)}, command: usual,
			exit: 4, want: tree{"a": text("one", 2)}},
		{name: "a file that is not what the source lists is not copied", source: tree{"a": text("one", 1), "SHA256SUMS": sums("a", "two")}, command: usual,
			exit: 3, want: tree{"a": {}, "SHA256SUMS": sums("a", "two"), "sealift.sha256": sums("SHA256SUMS", sums("a", "two").data)}},
		{name: "what the filters leave out is not copied", source: tree{"a": text("one", 1), "b": text("two", 1)},
			command: with(func(c *command) { c.Exclude = "a" }), want: tree{"a": {}, "SHA256SUMS": sums("b", "two")}},
		{name: "one file has its manifest beside it", dest: tree{"SHA256SUMS": sums("a", "z")}, command: one,
			want: tree{"a": text("one", 1), "a.sha256": sums("a", "one"), "SHA256SUMS": sums("a", "z")}},
		{name: "a publisher's digest that does not match stops the copy", dest: tree{"a.sha256": text(digestOf(hash.SHA256, "two"), 1)}, command: one,
			exit: 3, want: tree{"a": {}, "a.sha256": text(digestOf(hash.SHA256, "two"), 1)}},
		{name: "a publisher's digest that matches stays", dest: tree{"a.sha256": text(digestOf(hash.SHA256, "one"), 1)}, command: one,
			want: tree{"a": text("one", 1), "a.sha256": text(digestOf(hash.SHA256, "one"), 1)}},
		{name: "a publisher's digest of the file before is refused",
			dest: tree{"a": text("three", 0), "a.sha256": text(digestOf(hash.SHA256, "three"), 1)}, command: one, exit: 2},
		{name: "Sealift's own digest of the file before is renewed", dest: tree{"a": text("three", 0), "a.sha256": sums("a", "three")}, command: one,
			want: tree{"a": text("one", 1), "a.sha256": sums("a", "one")}},
		{name: "a list of other files beside one file is refused", dest: tree{"a.sha256": sums("z", "z")}, command: one, exit: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.source == nil {
				test.source = tree{}
			}
			if test.dest == nil {
				test.dest = tree{}
			}
			f := predict(scene(test.source, test.dest), test.command)
			require.Empty(t, f.unsure)
			require.Equal(t, test.exit, f.exit())
			for p, n := range test.want {
				require.True(t, n.matches(f.after.places[0].tree[p]), "%q: got %s, want %s", p, f.after.places[0].tree[p], n)
			}
		})
	}
}
