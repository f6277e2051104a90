package quote

import (
	"fmt"
	"strings"
)

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

// Join joins the texts, the first of count, and says how many more there are.
func Join(texts []string, count int) string {
	list := strings.Join(texts, ", ")
	if more := count - len(texts); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// Names quotes each name.
func Names(names []string) (quoted []string) {
	for _, name := range names {
		quoted = append(quoted, Name(name))
	}
	return quoted
}
