//go:build linux

package engine_test

import (
	"maps"
	"path"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// This file draws the commands of a history and the changes between them.

var (
	plainNames    = []string{"a", "b", "sub/a", "sub/b", `q\`}
	manifestNames = []string{
		"SHA256SUMS", "SHA256SUMS", "sealift.sha256", "sealift.sha256", "sealift-2.sha256", "sealift-3.sha256", "sha256sums",
		"MD5SUMS", "sealift.md5", "m.sums", "sub/m.sums", "a.sha256", "a.md5", "b.sha256",
	}
	contents = []string{"one", "two", "six", "three", ""} // three of the same size
	forms    = []string{
		"right", "right", "right", "wrong", "partial", "extra", "itself", // Sealift's own
		"binary", "dotted", "tagged", "marked", "comment", "mixed", "unsorted", "bare", "text", "empty",
	}
)

// number draws a number below n with equal probability. The ranges of rapid prefer small numbers
// and would rarely draw the last kinds of edits.
func number(t *rapid.T, label string, n int) int {
	return rapid.Custom(func(t *rapid.T) int {
		v := 0
		for range 12 {
			v <<= 1
			if rapid.Bool().Draw(t, "bit") {
				v |= 1
			}
		}
		return v % n
	}).Draw(t, label)
}

// between draws a number from least to most.
func between(t *rapid.T, label string, least, most int) int {
	return least + number(t, label, most-least+1)
}

func draw[T any](t *rapid.T, label string, from []T) T { return from[number(t, label, len(from))] }

// chance is true once in n times; shrinking prefers false.
func chance(t *rapid.T, label string, n int) bool { return number(t, label, n) == n-1 }

// drawSnapshot draws the trees that a history begins with.
func drawSnapshot(t *rapid.T) snapshot {
	s := snapshot{source: tree{}, single: tree{
		"a": {kind: file, data: "one", mtime: at(1), mode: usualMode},
		"b": {kind: file, data: "two", mtime: at(1), mode: usualMode},
	}}
	for range between(t, "places", 1, 2) {
		s.places = append(s.places, place{tree: tree{}})
	}
	for range between(t, "entries", 1, 7) {
		editTree(t, s.source, s.source)
	}
	for range between(t, "edits", 0, 4) {
		s.edit(t)
	}
	return s
}

// edit does one thing that a user can do between two runs.
func (s *snapshot) edit(t *rapid.T) {
	i := between(t, "place", 0, len(s.places)-1)
	p := &s.places[i]
	switch kind := between(t, "edit", 0, 13); {
	case kind < 5:
		editTree(t, s.source, s.source)
	case kind < 10:
		p.exists = true
		reference := maps.Clone(p.tree)
		if chance(t, "of the source", 2) {
			maps.Copy(reference, s.source)
		}
		editTree(t, p.tree, reference)
	case kind == 10:
		q := draw(t, "single", []string{"a", "b"})
		s.single[q] = drawFile(t)
	case kind == 11:
		p.outside = drawManifest(t, outsideName, p.tree)
		if chance(t, "no manifest outside", 3) {
			p.outside = node{}
		}
	case kind == 12: // the copy is copied on
		if p.exists {
			s.source = p.tree.visible()
			for q, n := range s.source { // as the owner of the source has it
				if n.kind == file {
					n.mode = usualMode
					s.source[q] = n
				}
			}
			if chance(t, "fresh", 2) {
				*p = place{tree: tree{}}
			}
		}
	case kind == 13:
		*p = place{tree: tree{}, outside: p.outside}
	}
}

// editTree changes one entry of a tree. Manifests are about reference.
func editTree(t *rapid.T, in, reference tree) {
	existing := in.visible().paths()
	switch kind := between(t, "change", 0, 11); {
	case kind < 4 || len(existing) == 0:
		in.put(draw(t, "name", plainNames), drawFile(t))
	case kind < 7:
		name := draw(t, "manifest", manifestNames)
		in.put(name, drawManifest(t, name, reference))
	case kind == 7: // other content with the same time, and perhaps the same size
		p := draw(t, "changed", existing)
		if n := in[p]; n.kind == file {
			n.data = draw(t, "content", contents)
			in[p] = n
		}
	case kind == 8:
		p := draw(t, "touched", existing)
		if n := in[p]; n.kind == file {
			n.mtime = drawTime(t)
			in[p] = n
		}
	case kind == 9:
		in.remove(draw(t, "removed", existing))
	case kind == 10:
		name := draw(t, "name", append([]string{"a", "b", "sub"}, manifestNames...))
		if n := (node{kind: symlink, data: "nowhere", mtime: drawTime(t)}); name == "b" || chance(t, "symlink", 2) {
			in.put(name, n)
		} else {
			in.put(name, node{kind: directory})
		}
	case kind == 11:
		name := draw(t, "signed", manifestNames) + draw(t, "signature", []string{".asc", ".sig", ".gpg"})
		in.put(name, node{kind: file, data: "signature", mtime: drawTime(t), mode: usualMode})
	}
}

// put sets the entry p. It replaces an existing entry, and a parent that is no directory.
func (t tree) put(p string, n node) {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		if t[d].kind != directory {
			t.remove(d)
		}
	}
	t.withParents(p)
	if t[p].kind != file || n.kind != file {
		t.remove(p)
	}
	t[p] = n
}

func drawTime(t *rapid.T) int64 { return at(between(t, "hour", 1, 3)) }

func drawFile(t *rapid.T) node {
	return node{kind: file, data: draw(t, "content", contents), mtime: drawTime(t), mode: usualMode}
}

// drawManifest draws a manifest of the name p that is about the reference.
func drawManifest(t *rapid.T, p string, reference tree) node {
	a := hash.SHA256
	if strings.Contains(strings.ToLower(p), "md5") {
		a = hash.MD5
	}
	n := node{kind: file, data: manifestOf(draw(t, "form", forms), a, p, reference), mtime: drawTime(t), mode: usualMode}
	if chance(t, "private", 8) {
		n.mode = 0o600
	}
	return n
}

// manifestOf writes a manifest of the name p in a form. It is about the reference, in
// which files of the same level of names are not listed.
func manifestOf(form string, a hash.Algorithm, p string, reference tree) string {
	l := lines{}
	single := strings.HasPrefix(p, "a.") || strings.HasPrefix(p, "b.")
	for q, n := range reference.visible() {
		if n.kind == file && !sameLevel(p, q) && (!single || q == p[:1]) {
			l[q] = digestOf(a, n.data)
		}
	}
	all := sortedPaths(l)
	switch form {
	case "right":
		return l.render()
	case "wrong":
		if len(all) > 0 {
			l[all[0]] = digestOf(a, "something else")
		}
		return l.render()
	case "partial":
		if len(all) > 0 {
			delete(l, all[len(all)-1])
		}
		return l.render()
	case "extra":
		l["gone"] = digestOf(a, "gone")
		return l.render()
	case "itself":
		l[p] = digestOf(a, "itself")
		return l.render()
	case "binary":
		return strings.ReplaceAll(l.render(), "  ", " *")
	case "dotted":
		return strings.ReplaceAll(l.render(), "  ", "  ./")
	case "tagged":
		return taggedLines(a, l)
	case "marked":
		return "\xef\xbb\xbf" + l.render()
	case "comment":
		return "# published\r\n" + strings.ReplaceAll(l.render(), "\n", "\r\n")
	case "mixed":
		return l.render() + gnuLine(digestOf(other(a), "mixed"), "  ", "mixed")
	case "unsorted":
		var b strings.Builder
		for _, q := range slices.Backward(all) {
			b.WriteString(gnuLine(l[q], "  ", q))
		}
		return b.String()
	case "bare":
		if len(all) > 0 {
			return l[all[0]] + "\n"
		}
		return digestOf(a, "one") + "\n"
	case "text":
		return "Not a list of digests.\n"
	}
	return ""
}

func taggedLines(a hash.Algorithm, l lines) string {
	var b strings.Builder
	for _, p := range sortedPaths(l) {
		if !strings.Contains(p, `\`) {
			b.WriteString(strings.ToUpper(string(a)) + " (" + p + ") = " + l[p] + "\n")
		}
	}
	return b.String()
}

func other(a hash.Algorithm) hash.Algorithm {
	if a == hash.SHA256 {
		return hash.MD5
	}
	return hash.SHA256
}

// sameLevel reports whether two paths are the manifests of one level of names.
func sameLevel(p, q string) bool {
	stem := func(p string) string {
		return strings.NewReplacer("MD5", "*", "SHA256", "*", "md5", "*", "sha256", "*").Replace(p)
	}
	return stem(p) == stem(q)
}

// drawCommand draws a run over so many places.
func drawCommand(t *rapid.T, places int) command {
	c := command{
		Sync: draw(t, "sync", []engine.SyncMode{engine.SyncNone, engine.SyncNone, engine.SyncNone, engine.SyncEnd, engine.SyncFile}),
		Hashes: draw(t, "hashes", [][]hash.Algorithm{
			{hash.SHA256}, {hash.SHA256}, {hash.SHA256}, {hash.SHA256, hash.MD5}, {hash.SHA256, hash.MD5}, {hash.MD5}, nil,
		}),
		Policy: draw(t, "policy", []engine.Policy{
			engine.PolicyDefault, engine.PolicyDefault, engine.PolicyDefault,
			engine.PolicyUpdate, engine.PolicyUpdate, engine.PolicyChecksum, engine.PolicyAlways, engine.PolicyNever,
			engine.PolicyProtect, engine.PolicyProtect,
		}),
		Places:  between(t, "destinations", 1, places),
		Workers: between(t, "workers", 1, 4),
	}
	if chance(t, "single file", 5) {
		c.Single = draw(t, "file", []string{"a", "b"})
		c.As = draw(t, "as", []string{"", "", "b", "copy"})
	} else {
		if len(c.Hashes) == 1 {
			c.Manifest = draw(t, "manifest", []string{"", "", "", "", "", "m.sums", "m.sums", "sub/m.sums", outsideManifest})
		}
		if chance(t, "filter", 6) {
			c.Exclude = draw(t, "exclude", []string{"a", "sub", "SHA256SUMS", "sealift.sha256"})
		}
		c.SourceManifest = draw(t, "source manifest", []engine.SourceManifestMode{
			engine.SourceManifestCheck, engine.SourceManifestCheck, engine.SourceManifestIgnore, engine.SourceManifestIgnore,
			engine.SourceManifestStrict,
		})
	}
	if len(c.Hashes) > 0 && chance(t, "verify", 8) {
		c.Verify = engine.VerifyDest
	}
	return c
}
