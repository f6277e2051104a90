package filter

// MatchAll returns the verdict on the entry at path, as Match does for the directories above it, from
// the root down, and then for the entry. Its time grows with the length of the path, and not with
// the square of it: the path can be from a hostile list.
func (l *List) MatchAll(path string, isDir bool) Verdict {
	verdict := l.Root()
	if l == nil {
		return verdict
	}
	matchers := make([]matcher, len(l.rules))
	for i := range matchers {
		matchers[i] = newMatcher(&l.rules[i])
	}
	for start := 0; start <= len(path) && verdict.Searched; {
		end := componentEnd(path, start)
		for i := range matchers { // each matcher has to read every component
			matchers[i].next(path[start:end])
		}
		isDir := isDir || end < len(path)
		verdict = l.decide(path[:end], isDir, verdict, func(i int) bool {
			return matchers[i].matches && (isDir || !l.rules[i].dirOnly)
		})
		start = end + 1
	}
	return verdict
}

// matcher matches a rule with a path that becomes longer by one component at a time.
type matcher struct {
	rule *rule
	// may has, for each segment, whether the next component may match it: the components before
	// match the segments before.
	may     []bool
	matches bool // true if the rule matches the path so far, or would if it were a directory
}

func newMatcher(r *rule) matcher {
	m := matcher{rule: r}
	if !r.anyBase {
		m.may = make([]bool, len(r.segs))
		m.reach(0)
	}
	return m
}

// reach records that the components so far match the segments before seg, and reports whether
// these are all segments. "**" matches no component, too, but not at the end of a pattern.
func (m *matcher) reach(seg int) (complete bool) {
	if seg == len(m.may) {
		return true
	}
	m.may[seg] = true
	if m.rule.segs[seg].kind == anyDepth && seg+1 < len(m.may) {
		m.may[seg+1] = true
	}
	return false
}

// next reads the next component of the path.
func (m *matcher) next(name string) {
	m.matches = m.rule.anyBase && m.rule.segs[0].match(name)
	for seg := len(m.may) - 1; seg >= 0; seg-- { // backwards, because reach is for the next component
		if !m.may[seg] {
			continue
		}
		s := &m.rule.segs[seg]
		if s.kind == anyDepth {
			m.reach(seg)
			m.matches = m.matches || seg == len(m.may)-1
			continue
		}
		m.may[seg] = false
		m.matches = s.match(name) && m.reach(seg+1) || m.matches
	}
}
