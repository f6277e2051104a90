package progress

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/units"
)

// destination holds what is shown for one of several destinations.
type destination struct {
	name      string
	device    uint64
	rate      float64
	etaRate   float64 // bytes and files per second, for the estimate: see fileCost
	unwritten int64
	readBack  bool // true if rate, bytes and total are of reading back; unwritten is not shown
	bytes     int64
	total     int64  // 0 until it is final
	amount    int64  // bytes and files that are read back
	left      int64  // the part of amount that is still to be read
	limits    bool   // true if this destination limits the copy
	dropped   string // reason why the destination was dropped, quoted; "" if it was not
}

// A destination limits the others if its unwritten data is at least limitingBytes, and at least
// limitingRatio times that of any other destination.
const (
	limitingBytes = 8 << 20
	limitingRatio = 2
)

// takeDestinations reads the counters of the destinations. During the copy, each byte is written
// to all of them, so that the bytes at one of them are the bytes read, less its unwritten data.
func (s *sampler) takeDestinations(now time.Time, c *counters.Set, totalsKnown bool) []destination {
	var shown []destination
	for i, d := range c.Destinations() {
		if i == len(s.destinations) {
			s.destinations = append(s.destinations, newSampler(now))
		}
		at := &s.destinations[i]
		line := destination{name: d.Name, device: d.Device, readBack: s.work == &c.ReadBack || d.ReadBack.TotalFiles.Load() > 0}
		x := sample{at: now}
		if line.readBack {
			line.bytes = d.ReadBack.Bytes.Load()
			if totalsKnown {
				line.total = d.ReadBack.TotalBytes.Load()
			}
			x.files = d.ReadBack.Files.Load()
			files := d.ReadBack.TotalFiles.Load()
			line.amount, line.left = costOf(line.total, files), stillToRead(line.bytes, line.total, x.files, files)
		} else {
			line.unwritten = max(d.Unwritten.Load(), 0)
			line.bytes = at.written(max(c.Bytes.Load()-c.Unread.Load(), 0), line.unwritten)
		}
		x.bytes = line.bytes
		line.rate = at.since(now.Add(-rateWindow)).rateTo(x)
		line.etaRate = at.since(now.Add(-etaWindow)).workTo(x)
		at.add(x)
		if why := d.Dropped.Load(); why != nil {
			line.dropped = quote.Text(*why)
		}
		shown = append(shown, line)
	}
	for i := range shown {
		least := int64(limitingBytes)
		for k, other := range shown {
			if k != i && other.dropped == "" {
				least = max(least, limitingRatio*other.unwritten)
			}
		}
		shown[i].limits = shown[i].dropped == "" && shown[i].unwritten >= least
	}
	return shown
}

// destinationLines draws one line per destination, each at most the given number of columns wide.
func destinationLines(list []destination, columns int, look Look) (lines []string) {
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.name
	}
	width := widest(names)
	if width > columns/3 {
		names = apart(names, quote.Ellipsis(look.Unicode))
		width = min(widest(names), columns/3)
	}
	for i, d := range list {
		name := quote.Cut(quote.Name(names[i]), width, look.Unicode)
		start := quote.Head(name+strings.Repeat(" ", width-quote.Width(name)+2), columns)
		space := columns - quote.Width(start)
		if d.dropped != "" {
			lines = append(lines, start+look.bad(quote.CutEnd("dropped: "+d.dropped, space, look.Unicode)))
		} else {
			lines = append(lines, start+fit(d.fields(), space))
		}
	}
	return lines
}

// widest returns how many columns the widest of the quoted names uses.
func widest(names []string) (columns int) {
	for _, name := range names {
		columns = max(columns, quote.Width(quote.Name(name)))
	}
	return columns
}

// apart replaces the directories that all paths begin with, and the names that all end with, by a mark. So
// /media/user/A/day/card and /media/user/B/day/card are …/A/… and …/B/….
func apart(paths []string, mark string) []string {
	split := make([][]string, len(paths))
	for i, path := range paths {
		split[i] = strings.Split(filepath.ToSlash(path), "/")
	}
	shared := func(at func(names []string, i int) string) (n int) {
		for {
			for _, names := range split {
				if n >= len(names)-1 || at(names, n) != at(split[0], n) {
					return n
				}
			}
			n++
		}
	}
	head := shared(func(names []string, i int) string { return names[i] })
	if head == 1 && split[0][0] == "" {
		head = 0 // only the root
	}
	for i := range split {
		split[i] = split[i][head:]
	}
	tail := shared(func(names []string, i int) string { return names[len(names)-1-i] })
	short := make([]string, len(paths))
	for i, names := range split {
		names = names[:len(names)-tail]
		if head > 0 {
			names = append([]string{mark}, names...)
		}
		if tail > 0 {
			names = append(names, mark)
		}
		short[i] = strings.Join(names, "/")
	}
	return short
}

func (d *destination) fields() []field {
	fields := []field{{fmt.Sprintf("%9s", units.Rate(d.rate)), 0}}
	if d.readBack {
		total := ""
		if d.total > 0 {
			total = "/" + units.Size(d.total)
		}
		return append(fields, field{fmt.Sprintf("%7s%s verified", units.Size(d.bytes), total), 1})
	}
	fields = append(fields, field{fmt.Sprintf("%7s unwritten", units.Size(d.unwritten)), 2})
	if d.limits {
		fields = append(fields, field{"limited by this disk", 1})
	}
	return fields
}
