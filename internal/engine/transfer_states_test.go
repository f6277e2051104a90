package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/dest"
	"github.com/seed65876f4f/sealift/internal/policy"
)

// A transition between two states that is not in the table panics, so that no manifest line
// depends on it.
func TestStatesOfATransfer(t *testing.T) {
	t.Parallel()
	// A row is a state; the columns are the states that may follow, in the same order.
	table := []struct {
		from state
		to   string
	}{
		{stateUndecided, "undecided comparing moving keeping finished failed"},
		{stateComparing, "undecided - moving keeping finished failed"},
		{stateMoving, "undecided - - - finished failed"},
		{stateKeeping, "undecided comparing moving - finished failed"},
		{stateFinished, "undecided - - - - -"},
		{stateFailed, "- - - - - -"},
	}
	states := []state{stateUndecided, stateComparing, stateMoving, stateKeeping, stateFinished, stateFailed}
	require.Len(t, table, len(states))
	for _, row := range table {
		want := ""
		for _, next := range states {
			p := &transfer{name: "file", state: row.from}
			allowed := " " + next.String()
			if func() (panicked bool) {
				defer func() { panicked = recover() != nil }()
				p.become(next)
				return false
			}() {
				allowed = " -"
				require.Equal(t, row.from, p.state)
			} else {
				require.Equal(t, next, p.state)
			}
			want += allowed
		}
		require.Equal(t, " "+row.to, want, row.from)
	}
}

// A new description of the source takes back everything but two facts: a failure that was
// reported, and that this run has given the name to an earlier state.
func TestATransferThatStartsAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		done outcome
		made bool
	}{
		{outCreated, true}, {outReplaced, true}, {outLinked, true},
		{outUpToDate, false}, {outRefreshed, false}, {outLeft, false}, {outConflict, false},
	} {
		p := &transfer{target: &target{Destination: &dest.Destination{}}, name: "file", exists: true}
		p.decision.Act = policy.LeaveConflict
		p.finish(targetResult{done: c.done})
		require.False(t, p.open())
		p.startAgain()
		require.Equal(t, &transfer{target: p.target, name: "file", made: c.made}, p, c.done)
		require.True(t, p.open())
		p.finish(targetResult{done: outUpToDate})
		p.startAgain()
		require.Equal(t, c.made, p.made, "once made, always made")
		p.become(stateFailed)
		p.startAgain()
		require.Equal(t, stateFailed, p.state)
	}
}
