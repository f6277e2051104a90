package pipe

import "fmt"

// Cache says what a reading has to do with the page cache.
type Cache uint8

// The modes.
const (
	CacheAuto   Cache = iota // as usual
	CacheDrop                // what is cached is dropped first, and what was read afterwards
	CacheDirect              // the cache is bypassed, where the file system can
)

var cacheNames = []string{"auto", "drop", "direct"}

func (c Cache) String() string { return cacheNames[c] }

// CacheNames lists the values of verify's --cache.
func CacheNames() []string { return cacheNames }

// ParseCache reads the value of verify's --cache.
func ParseCache(s string) (Cache, error) {
	for i, name := range cacheNames {
		if s == name {
			return Cache(i), nil
		}
	}
	return 0, fmt.Errorf("unknown cache mode %q; known are auto, drop, direct", s)
}
