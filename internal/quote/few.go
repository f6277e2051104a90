package quote

import (
	"fmt"
	"slices"
	"strings"
	"sync"
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

// maxUnfit is how many names Unfit keeps.
const maxUnfit = 20

// Unfit counts names that something cannot hold, and keeps the first ones for a refusal. Several
// goroutines may add names.
type Unfit struct {
	mu    sync.Mutex
	count int
	shown []string
}

// Add adds a name, and the reason if it is not the same for all names.
func (u *Unfit) Add(name, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count++; len(u.shown) == maxUnfit {
		return
	}
	shown := Name(name)
	if why != "" {
		shown += " (" + why + ")"
	}
	u.shown = append(u.shown, shown)
}

// String lists the names; "" if there are none.
func (u *Unfit) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	slices.Sort(u.shown)
	return Join(u.shown, u.count)
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
