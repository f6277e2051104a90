package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
)

// account has the entries and errors of a run.
type account struct {
	Entries []Entry
	Failed  []string // paths, sorted
	Total   Amount
}

// numbersOfWorkers are the numbers of goroutines for the tests: the output must not depend
// on them.
var numbersOfWorkers = []int{1, 2, 16}

// take measures with every number of workers.
func take(t require.TestingT, o Options) account {
	var first account
	for i, n := range numbersOfWorkers {
		o.Workers = n
		a, err := run1(context.Background(), o)
		require.NoError(t, err)
		if i == 0 {
			first = a
		}
		require.Equal(t, first, a, "%d workers", n)
	}
	return first
}

func run1(ctx context.Context, o Options) (account, error) {
	var a account
	var mu sync.Mutex
	o.Emit = func(e Entry) { a.Entries = append(a.Entries, e) }
	o.Report = func(path string, err error) {
		if err == nil {
			panic("no error is reported")
		}
		mu.Lock()
		defer mu.Unlock()
		a.Failed = append(a.Failed, path)
	}
	s, err := Run(ctx, &o)
	slices.Sort(a.Failed)
	a.Total = s.Amount
	if int(s.Errors) != len(a.Failed) {
		panic(fmt.Sprintf("%d errors in the summary, reported were %q", s.Errors, a.Failed))
	}
	return a, err
}

// lines are entries as "BYTES PATH".
func (a account) lines() []string {
	list := []string{}
	for _, e := range a.Entries {
		list = append(list, fmt.Sprint(e.Size, " ", e.Path))
	}
	return list
}

// has reports whether a path is listed.
func (a account) has(path string) bool {
	return slices.ContainsFunc(a.Entries, func(e Entry) bool { return e.Path == path })
}

// topOf picks the largest from everything that there is.
func topOf(all []Entry, n int) (want []Entry) {
	var below []Entry
	emit := func(root Entry) {
		slices.SortFunc(below, func(a, b Entry) int {
			return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Path, b.Path))
		})
		want = append(append(want, root), below[:min(n, len(below))]...)
		below = nil
	}
	for _, e := range all {
		if e.Depth == 0 {
			emit(e)
		} else {
			below = append(below, e)
		}
	}
	return want
}
