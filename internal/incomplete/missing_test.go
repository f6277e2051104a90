package incomplete

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// If there are more paths than a marker lists, it lists the first ones and counts the
// others. The order of the calls makes no difference.
func TestMissingIsBounded(t *testing.T) {
	const paths = maxListed + 3*maxPending + 3
	up := make([]int, paths)
	down := make([]int, paths)
	for i := range up {
		up[i], down[i] = i, paths-1-i
	}
	for name, order := range map[string][]int{"up": up, "down": down, "mixed": rand.Perm(paths)} {
		var m Missing
		for _, i := range order {
			m.Add(fmt.Sprintf("%05d", i), "first")
			m.Add(fmt.Sprintf("%05d", i%10), "second")
			m.Remark(fmt.Sprint(i))
			require.Less(t, len(m.list), maxListed+maxPending)
		}
		require.Len(t, m.remarks, maxRemarks)
		m.remarks = nil
		head, lines := written(t, &m)
		require.EqualValues(t, paths, head.Missing, name)
		require.Len(t, lines, maxListed+1)
		for i, line := range lines[10:maxListed] { // the cause of the first ten depends on the order
			require.Equal(t, fmt.Sprintf("'%05d': first", i+10), line, name)
		}
		require.Equal(t, fmt.Sprintf("and %d more", paths-maxListed), lines[maxListed])

		m.Add("0", "late")
		head, lines = written(t, &m)
		require.EqualValues(t, paths+1, head.Missing)
		require.Equal(t, "'0': late", lines[0])
		require.Equal(t, fmt.Sprintf("and %d more", paths+1-maxListed), lines[maxListed])
	}
}

func TestMissingKeepsTheFirstCause(t *testing.T) {
	var m Missing
	for _, path := range []string{"b", "a", "b", "a"} {
		m.Add(path, fmt.Sprintf("cause %d", len(m.list)))
	}
	m.Remark("once")
	m.Remark("once")
	m.Cut = true
	head, lines := written(t, &m)
	require.EqualValues(t, 2, head.Missing)
	require.Equal(t, []string{
		"The copy ended before it had tried every file, so more paths may be missing.", "",
		"once", "'a': cause 1", "'b': cause 0",
	}, lines)
}

// Paths and causes are hostile input: their length is limited, and they cannot begin a
// new line.
func TestMissingWithHostileText(t *testing.T) {
	var m Missing
	m.Add("p\n"+strings.Repeat("p/", 1<<20), "c\n"+strings.Repeat("\x01", 1<<20))
	m.Remark("r\n" + strings.Repeat("r", 1<<20))
	_, lines := written(t, &m)
	require.Len(t, lines, 2)
	require.Len(t, lines[0], len(`r\x0a`)+maxCause-2+len("..."))
	path, cause, _ := strings.Cut(lines[1], "': ")
	require.Len(t, path, len(`$'p\n`)+maxPath-2+len("..."))
	require.Len(t, cause, len(`c\x0a`)+4*(maxCause-2)+len("..."))
}

func TestMissingChanged(t *testing.T) {
	var m Missing
	for _, change := range []func(){func() {}, func() { m.Add("a", "b") }, func() { m.Add("a", "b") }, func() { m.Remark("c") }} {
		change()
		require.True(t, m.Changed())
		require.False(t, m.Changed())
	}
	require.False(t, m.Complete())
	m = Missing{}
	require.True(t, m.Complete())
	m.Cut = true
	require.False(t, m.Complete())
}
