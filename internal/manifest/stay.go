package manifest

import "math/bits"

// This file marks the lines of a previous manifest that stay. A run that changes nothing then
// neither sorts, writes nor compares any lines.

// LineNumber is a line of one Index. It is 0 for no line.
type LineNumber int

// LookupLine is Lookup in an Index of BuildExactIndex, in which each path has one line at most.
// It also returns the line, for Stay. Several goroutines may call it, as Lookup.
func (ix *Index) LookupLine(path string) (digest []byte, line LineNumber, err error) {
	err = ix.find(path, func(i int, f fields) (more bool) {
		digest, line = append(digest, f.digestOf(ix.algorithm)...), LineNumber(i+1)
		return false
	})
	if err != nil {
		return nil, 0, err
	}
	return digest, line, nil
}

// Stay records that a line of LookupLine stays as it is. Several goroutines may call it.
func (ix *Index) Stay(line LineNumber) { ix.meet(int(line - 1)) }

// stays reports whether Stay was called for the line at an offset. A nil Index has no lines.
func (ix *Index) stays(path []byte, offset int64) bool {
	if ix == nil {
		return false
	}
	i, found := ix.entry(path, offset)
	return found && ix.isMet(i)
}

// AllStay reports whether the manifest has lines and all of them stay. It is false if a line
// has the asterisk of earlier versions, which a new manifest would lack.
func (ix *Index) AllStay() bool {
	count := 0
	for i := range ix.met {
		count += bits.OnesCount32(ix.met[i].Load())
	}
	return count == len(ix.entries) && count > 0 && !ix.asterisks
}
