//go:build linux

package model

import (
	"path"
	"slices"
	"strings"
)

// This file decides about entries: by the overwrite policy, by their content, and as names of one file.

// decide applies the policy, without content.
func (p *prediction) decide(t *target, q string, n *node) action {
	blocked := slices.ContainsFunc(t.blocked, func(d string) bool { return strings.HasPrefix(q, d+"/") })
	if blocked || p.isSourceManifest(t, q) {
		return none
	}
	e := t.before[q]
	if up := path.Dir(q); e != nil && up != "." && t.before[up].kind != dir {
		e = nil // it was below a link that policy always has replaced
	}
	act := p.policyFor(q, n, e)
	if e != nil && act != kept && p.isOtherOwn(t, q) {
		act = conflict
	}
	if n.kind == dir && (act == kept || act == conflict) {
		t.blocked = append(t.blocked, q)
	}
	return act
}

// isOtherOwn reports whether an entry of the destination is a manifest of Sealift's own that is not this run's, and
// differs from the source's.
func (p *prediction) isOtherOwn(t *target, q string) bool {
	for _, a := range algorithms {
		if slices.Contains(a.names[:], q) && !slices.Contains(t.names, q) {
			_, ok := a.own(t.before, q)
			return ok && p.src[q].data != t.before[q].data
		}
	}
	return false
}

// policyFor returns what the policy says about an entry n of the source and e of the destination.
func (p *prediction) policyFor(q string, n, e *node) action {
	switch {
	case e == nil:
		return create
	case n.kind == dir && e.kind == dir:
		if p.policy == policyNever {
			return none
		}
		return skip
	case p.policy == policyNever:
		return kept
	case n.kind == dir && e.kind == link && p.policy == policyAlways:
		return replace
	case n.kind == dir || e.kind == dir:
		return conflict
	case p.policy == policyAlways:
		return replace
	}
	cautious := p.policy == policyDefault || p.policy == policyProtect
	replaceIf := func(b bool) action {
		if b && p.policy != policyProtect {
			return replace
		}
		return conflict
	}
	older := n.mtime < e.mtime
	switch {
	case n.kind != e.kind:
		return replaceIf(!cautious)
	case n.kind == link && n.data != e.data:
		return replaceIf(!cautious || !older)
	case n.kind != file:
		return skip
	}
	sameSize, sameTime := len(n.data) == len(e.data), n.mtime == e.mtime
	switch {
	case p.policy == policyChecksum && !sameSize:
		return replace
	case p.policy == policyChecksum:
		return compare
	case sameSize && sameTime:
		return skip
	case p.policy == policyUpdate:
		return replace
	case sameSize:
		return compare
	}
	return replaceIf(!older)
}

// compareGroup turns the actions on the names of a file that depend on content into final ones.
func (p *prediction) compareGroup(names []string, n *node) {
	for _, q := range names {
		for _, t := range p.targets {
			if t.actions[q] == skip && slices.Contains(p.evidenceOf(t, q, n), "differs") {
				p.forecast.rechecks = true
			}
			if t.actions[q] == skip && p.needsReading(t, q) {
				t.actions[q], t.evidence[q] = compare, true
			}
		}
		p.compareContent(q, n)
	}
	// A file whose metadata must change, and that has names outside of the group, is replaced by a new one. Policy
	// protect compares it before.
	for _, q := range names {
		for _, t := range p.targets {
			if a := t.actions[q]; (a == skip || a == upToDate) && p.sharedOutside(t, q, names) {
				t.actions[q] = replace
				if p.policy == policyProtect && t.before[q].data != n.data {
					t.actions[q] = conflict
				}
			}
		}
	}
	// If a name is new or replaced, the names that size and time called up to date are compared, too.
	for _, t := range p.targets {
		if !slices.ContainsFunc(names, func(q string) bool { return t.actions[q] == create || t.actions[q] == replace }) {
			continue
		}
		for _, q := range names {
			if t.actions[q] == skip {
				t.actions[q], t.evidence[q], t.late[q] = compare, true, true
			}
			t.linked[q] = true
			a := t.actions[q]
			p.forecast.joins = p.forecast.joins || a != create && a != replace || p.policy == policyNever && len(names) > 1
		}
	}
	for range 2 {
		for _, q := range names {
			p.compareContent(q, n)
		}
	}
	// If the content of the file does not match under one name, it is not committed under names that are not listed.
	refuted := slices.ContainsFunc(names, func(q string) bool {
		return slices.ContainsFunc(p.hashes, func(h int) bool { return p.contradicts(h, q, algorithms[h].digest(n.data)) })
	})
	if !p.known[n] || !refuted {
		return
	}
	for _, q := range names {
		if slices.ContainsFunc(p.hashes, func(h int) bool { return len(p.expected[h][q]) > 0 }) {
			continue
		}
		p.forecast.mismatched[q], p.sourceMismatch = true, true
		for _, t := range p.targets {
			if a := t.actions[q]; a != conflict && a != kept {
				t.actions[q], t.read[q] = none, false
			}
		}
	}
}

// needsReading reports whether a file that is up to date by size and time is compared: it has no line, or one
// that a manifest of the source contradicts.
func (p *prediction) needsReading(t *target, q string) bool {
	for i, h := range p.hashes {
		if l := t.old[i][q]; l == "" || p.contradicts(h, q, l) {
			return true
		}
	}
	return false
}

// compareContent turns the actions on one name that depend on content into final ones.
func (p *prediction) compareContent(q string, n *node) {
	read := false
	for _, t := range p.targets {
		if t.actions[q] == compare {
			p.compareAt(t, q, n)
			// A comparison ends at the first block with a difference, unless a line can show which side is damaged.
			read = read || len(n.data) <= blockSize || p.mayShowDamage(t, q, n)
		}
		a := t.actions[q]
		read = read || a == upToDate || !p.dry && (a == create || a == replace)
	}
	p.known[n] = p.known[n] || read
	if !p.known[n] {
		return
	}
	for _, h := range p.hashes {
		if p.contradicts(h, q, algorithms[h].digest(n.data)) {
			p.forecast.mismatched[q], p.sourceMismatch = true, true
		}
	}
	for _, t := range p.targets {
		a := t.actions[q]
		switch {
		case p.forecast.mismatched[q] && a != conflict && a != kept:
			t.actions[q] = none
		case a == skip && slices.Contains(p.evidenceOf(t, q, n), "differs"):
			t.evidence[q] = true
			p.compareAt(t, q, n)
		}
		a = t.actions[q]
		t.read[q] = a == upToDate || a == create || a == replace
	}
}

// mayShowDamage reports whether a file that was to be skipped has a line of one of the hashes.
func (p *prediction) mayShowDamage(t *target, q string, n *node) bool {
	return (p.policy == policyDefault || p.policy == policyUpdate) && t.before[q].mtime == n.mtime &&
		slices.ContainsFunc(t.old, func(l lines) bool { return l[q] != "" })
}

// evidenceOf compares the lines of a file with the digests of the source: "none", "same" or "differs" for each hash.
func (p *prediction) evidenceOf(t *target, q string, n *node) (list []string) {
	for i, h := range p.hashes {
		switch t.old[i][q] {
		case "":
			list = append(list, "none")
		case algorithms[h].digest(n.data):
			list = append(list, "same")
		default:
			list = append(list, "differs")
		}
	}
	return list
}

// compareAt compares a file with the source and applies the policy to the result.
func (p *prediction) compareAt(t *target, q string, n *node) {
	e := t.before[q]
	damaged := slices.Contains(p.evidenceOf(t, q, n), "same") // the line is that of the source
	switch {
	case e.data == n.data:
		t.actions[q] = upToDate
	case p.policy == policyProtect, p.isOtherOwn(t, q),
		t.evidence[q] && p.policy != policyChecksum && !damaged,
		!t.evidence[q] && p.policy == policyDefault && n.mtime < e.mtime:
		t.actions[q] = conflict
	default:
		t.actions[q] = replace
	}
}

// choosePrimary chooses the file that the names of a group become links of. That is the first existing one
// that was compared for its own sake and is equal. Without one, it is the first that is equal.
func (p *prediction) choosePrimary(t *target, names []string) {
	n := p.src[names[0]]
	if n.kind != file {
		return
	}
	for _, late := range []bool{false, true} {
		for _, q := range names {
			if t.linked[q] && t.actions[q] == upToDate && t.late[q] == late {
				t.primary[n] = t.after[q]
				return
			}
		}
	}
}

// sharedOutside reports whether the metadata of an existing file must change and it has names outside of the group.
func (p *prediction) sharedOutside(t *target, q string, names []string) bool {
	if !differsInMetadata(t.before[q], p.src[q]) {
		return false
	}
	for r, e := range t.before {
		if e == t.before[q] && !slices.Contains(names, r) {
			return true
		}
	}
	return false
}

// differsInMetadata reports whether the metadata of an existing entry e is not that of the source.
func differsInMetadata(e, n *node) bool {
	return e.kind != link && e.mode != n.mode || e.mtime != n.mtime
}
