//go:build linux

package model

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
)

// An algorithm is a hash of the model.
type algorithm struct {
	name   string
	names  [2]string // of its manifests, in the order in which a copy tries them
	digits int
	digest func(string) string
}

var algorithms = []algorithm{
	{"sha256", [2]string{"SHA256SUMS", "sealift.sha256"}, 64, func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }},
	{"md5", [2]string{"MD5SUMS", "sealift.md5"}, 32, func(s string) string { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) }},
}

// lines are the digests of a manifest by path.
type lines map[string]string

// text is the manifest in the form that Sealift writes.
func (l lines) text() string {
	var b strings.Builder
	paths := make([]string, 0, len(l))
	for p := range l {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		b.WriteString(line(l[p], p))
	}
	return b.String()
}

func line(digest, p string) string {
	escape := ""
	if strings.ContainsAny(p, "\n\\\r") {
		escape = `\`
		p = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(p)
	}
	if p == "-" {
		p = "./-"
	}
	return escape + digest + "  " + p + "\n"
}

// parse reads lines of GNU sha256sum. strict says that they have exactly the form that Sealift writes.
func (a algorithm) parse(text string) (l lines, strict, ok bool) {
	l, strict = lines{}, true
	last := ""
	if text == "" || !strings.HasSuffix(text, "\n") {
		return nil, false, false
	}
	for s := range strings.Lines(text) {
		raw := s
		if strings.HasPrefix(s, "#") {
			strict = false
			continue
		}
		s = strings.TrimSuffix(s, "\n")
		s, escaped := strings.CutPrefix(s, `\`)
		digest, p, found := strings.Cut(s, "  ")
		if !found {
			digest, p, found = strings.Cut(s, " *") // of earlier versions
			raw = strings.Replace(raw, " *", "  ", 1)
		}
		if !found || len(digest) != a.digits || strings.Trim(digest, "0123456789abcdef") != "" {
			return nil, false, false
		}
		if escaped {
			p = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r").Replace(p)
		}
		if p == "./-" {
			p = "-"
		}
		if len(l) > 0 && last >= p || line(digest, p) != raw {
			strict = false
		}
		last = p
		l[p] = digest
	}
	return l, strict, true
}

// own returns the lines of a manifest of Sealift's own with a name in the root of a tree; ok
// is false if that is another entry, or none.
func (a algorithm) own(t tree, name string) (l lines, ok bool) {
	l, ok = a.inForm(t, name)
	if strings.HasSuffix(name, "."+a.name) && !slices.Contains(a.names[:], name) && (len(l) != 1 || l[strings.TrimSuffix(name, "."+a.name)] == "") {
		ok = false // beside one file, it lists that file
	}
	return l, ok
}

// inForm returns the lines of a file in the form of Sealift's own manifests.
func (a algorithm) inForm(t tree, name string) (l lines, ok bool) {
	n := t[name]
	if n == nil || n.kind != file {
		return nil, false
	}
	for p := range t {
		if strings.HasPrefix(p, name+".") && path.Dir(p) == path.Dir(name) {
			return nil, false // a signature or the like
		}
	}
	l, strict, ok := a.parse(n.data)
	return l, ok && strict
}

// matches reports whether lines are those of the files in a tree. A manifest beside one file that does not match it
// is not Sealift's own.
func (a algorithm) matches(t tree, l lines) bool {
	for q, digest := range l {
		if t[q] == nil || t[q].kind != file || a.digest(t[q].data) != digest {
			return false
		}
	}
	return true
}

// free reports whether a copy may use a name for its manifest.
func (a algorithm) free(t tree, name string) bool {
	if t[name] == nil {
		for p := range t {
			if strings.HasPrefix(p, name+".") && path.Dir(p) == path.Dir(name) {
				return false // a signature without its list
			}
		}
		return true
	}
	_, ok := a.own(t, name)
	return ok
}
