//go:build linux

package model

import "strings"

// predictSingle predicts the copy of one file into each destination. Its manifest is NAME.sha256 beside it.
func (p *prediction) predictSingle(s state) {
	name, n := p.single[strings.LastIndexByte(p.single, '/')+1:], s.src[p.single]
	p.src = tree{name: n}
	p.expected = make([]map[string][]string, len(algorithms))
	p.chosen = selection{name: true}
	for _, h := range p.hashes {
		a := algorithms[h]
		if e := s.src[p.single+"."+a.name]; e != nil && e.kind == file && p.sourceManifest != "ignore" {
			if l, _, _ := a.parse(e.data); l[name] != "" {
				p.expected[h] = map[string][]string{name: {l[name]}}
			}
		}
	}
	for i := range p.dsts {
		t := p.newTarget(s, i)
		for _, h := range p.hashes {
			a := algorithms[h]
			sidecar := name + "." + a.name
			t.names = append(t.names, sidecar)
			listed := ""
			if e := t.before[sidecar]; e != nil {
				listed = a.digestIn(e.data, name)
				if listed == "" || e.kind != file {
					p.forecast.refused = true // the name is taken
				}
			}
			l, own := a.inForm(t.before, sidecar)
			if !own { // a line in another form is not of an earlier run
				l = nil
			}
			t.old, t.listed = append(t.old, l), append(t.listed, listed)
		}
		t.actions[name] = p.decide(t, name, n)
	}
	if p.forecast.refused {
		return
	}
	p.compareGroup([]string{name}, n)
	for _, t := range p.targets {
		if t.read[name] && !p.mayReplaceSidecars(t, name, n) {
			p.forecast.mismatched[name] = true
			t.actions[name] = none
		}
	}
	for i, t := range p.targets {
		p.apply(i, t, name, n)
		var changed []string
		for j, h := range p.hashes {
			a, sidecar := algorithms[h], t.names[j]
			if digest := a.digest(n.data); t.read[name] && t.actions[name] != none && t.listed[j] != digest {
				l := lines{name: digest}
				for q, other := range t.old[j] {
					if e := t.after[q]; q != name && e != nil && e.kind == file {
						l[q] = other
					}
				}
				t.after[sidecar] = &node{kind: file, data: l.text(), mtime: anyTime}
				if t.before[sidecar] != nil {
					changed = append(changed, sidecar)
				}
			}
		}
		p.removeOutdated(t, nil, changed...)
		p.forecast.after.dsts[i] = place{exists: true, tree: t.after, markers: t.markers}
	}
}

// mayReplaceSidecars reports whether each manifest beside the file matches what was read or may be replaced: it
// is Sealift's own, and matches the file that is replaced.
func (p *prediction) mayReplaceSidecars(t *target, name string, n *node) bool {
	if p.dry && !p.known[n] { // not read
		return true
	}
	for j, h := range p.hashes {
		a := algorithms[h]
		listed := t.listed[j]
		if listed == "" || listed == a.digest(n.data) {
			continue
		}
		_, own := a.inForm(t.before, t.names[j])
		e := t.before[name]
		if !own || t.actions[name] != replace || e.kind != file || listed != a.digest(e.data) {
			return false
		}
	}
	return true
}

// digestIn returns the digest that a manifest in any form lists for a file, "" if there is none.
func (a algorithm) digestIn(text, name string) string {
	if bare := strings.TrimSuffix(text, "\n"); len(bare) == a.digits && strings.Trim(bare, "0123456789abcdef") == "" {
		return bare
	}
	l, _, _ := a.parse(text)
	return l[name]
}
