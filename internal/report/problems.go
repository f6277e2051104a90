package report

// Limits of the list of problems.
const (
	maxGroups       = 200     // number of causes; further ones share a group for each kind
	maxProblemPaths = 10_000  // number of listed paths of all groups; the others are counted
	maxProblemBytes = 2 << 20 // length of the listed paths in bytes
)

// Problem is one failure, or an event that a person should know about.
type Problem struct {
	Kind   string // "failure", "mismatch", "conflict", "warning"
	Path   string // path of the entry; "" if the problem does not concern one
	Target string // the destination or the tree concerned; "" for the source or all
	Cause  string // the text that problems can have in common: the stage and the error
	Note   string // the details of this problem; may be ""
}

// Problems groups the problems of a run by their causes.
type Problems struct {
	groups []*Group
	index  map[groupKey]*Group
	paths  int
	bytes  int
}

type groupKey struct{ kind, target, cause string }

// Group has the problems with one cause.
type Group struct {
	Kind, Target, Cause string
	Count               int64
	Paths               []ProblemPath // the first paths, at most Count
}

// ProblemPath is one path of a group.
type ProblemPath struct{ Path, Note string }

// otherCauses is the cause of the groups that collect problems beyond the limit.
const otherCauses = "other causes"

// Add adds a problem.
func (p *Problems) Add(x Problem) {
	if p.index == nil {
		p.index = map[groupKey]*Group{}
	}
	key := groupKey{x.Kind, x.Target, x.Cause}
	if p.index[key] == nil && len(p.groups) >= maxGroups {
		key = groupKey{x.Kind, "", otherCauses}
		x.Note = x.Cause
	}
	g := p.index[key]
	if g == nil {
		g = &Group{Kind: key.kind, Target: key.target, Cause: key.cause}
		p.index[key] = g
		p.groups = append(p.groups, g)
	}
	g.Count++
	size := len(x.Path) + len(x.Note)
	if size == 0 || p.paths >= maxProblemPaths || p.bytes+size > maxProblemBytes {
		return
	}
	p.paths++
	p.bytes += size
	g.Paths = append(g.Paths, ProblemPath{x.Path, x.Note})
}

// Groups returns the groups in the order of their first problems.
func (p *Problems) Groups() []*Group { return p.groups }

// More returns how many paths of the group are not listed.
func (g *Group) More() int64 {
	if len(g.Paths) == 0 {
		return 0
	}
	return g.Count - int64(len(g.Paths))
}
