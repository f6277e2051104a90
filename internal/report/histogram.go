package report

import "slices"

// Histogram counts files, and their bytes, by classes of a number.
type Histogram struct {
	classes []class
	files   []int64
	bytes   []int64
}

// class contains the numbers below its limit that no earlier class contains.
type class struct {
	below int64
	label string
}

const (
	day  = 24 * 3600 // seconds
	year = 365 * day
)

var (
	sizeClasses = []class{
		{1, "empty"},
		{1e3, "below 1 kB"},
		{1e4, "1 to 10 kB"},
		{1e5, "10 to 100 kB"},
		{1e6, "100 kB to 1 MB"},
		{1e7, "1 to 10 MB"},
		{1e8, "10 to 100 MB"},
		{1e9, "100 MB to 1 GB"},
		{1e10, "1 to 10 GB"},
		{0, "10 GB and more"},
	}
	ageClasses = []class{
		{0, "in the future"},
		{day, "less than a day"},
		{7 * day, "1 to 7 days"},
		{30 * day, "7 to 30 days"},
		{90 * day, "30 to 90 days"},
		{year, "90 days to 1 year"},
		{3 * year, "1 to 3 years"},
		{10 * year, "3 to 10 years"},
		{0, "10 years and more"},
	}
)

func newHistogram(classes []class) Histogram {
	return Histogram{classes, make([]int64, len(classes)), make([]int64, len(classes))}
}

// add counts a file of some bytes by n. The last class has all numbers that no other class
// has.
func (h *Histogram) add(n, bytes int64) {
	i := 0
	for i < len(h.classes)-1 && n >= h.classes[i].below {
		i++
	}
	h.files[i]++
	h.bytes[i] += bytes
}

// bar is one row of a chart.
type bar struct {
	Label string
	Files int64
	Bytes int64
	Part  float64 // percentage of the longest bar
}

// bars returns the rows from the first class with a file to the last.
func (h *Histogram) bars() (list []bar) {
	first := slices.IndexFunc(h.files, func(n int64) bool { return n > 0 })
	if first < 0 {
		return nil
	}
	last := len(h.files) - 1
	for h.files[last] == 0 {
		last--
	}
	most := slices.Max(h.files)
	for i := first; i <= last; i++ {
		list = append(list, bar{h.classes[i].label, h.files[i], h.bytes[i], 100 * float64(h.files[i]) / float64(most)})
	}
	return list
}
