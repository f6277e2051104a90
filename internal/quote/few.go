package quote

import "strings"

// MaxFew is how many names Few keeps.
const MaxFew = 3

// Few counts names, and keeps the first ones for a message.
type Few struct {
	Count int
	Shown []string // quoted
}

// Add adds a name.
func (f *Few) Add(name string) {
	if f.Count++; len(f.Shown) < MaxFew {
		f.Shown = append(f.Shown, Name(name))
	}
}

func (f *Few) String() string {
	names := strings.Join(f.Shown, ", ")
	if f.Count > len(f.Shown) {
		names += ", ..."
	}
	return names
}
