package resume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

func TestAPlanKeepsOtherCopiesOut(t *testing.T) {
	path := t.TempDir()
	root, err := fsys.OpenRoot(path)
	require.NoError(t, err)
	defer root.Close()
	mark := PlanMark{strings.Repeat("0a", 16), "/plans/a b\nc"}
	j, err := OpenJournal(root, JournalName(""))
	require.NoError(t, err)
	require.NoError(t, j.MarkPlan(mark))
	j.Close()

	_, err = OpenJournal(root, JournalName(""))
	var planned *PlanError
	require.ErrorAs(t, err, &planned)
	require.Equal(t, mark, planned.PlanMark)
	have, found, err := ReadPlanMark(root)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, mark, have)
	_, err = OpenPlannedJournal(root, strings.Repeat("0b", 16))
	require.ErrorIs(t, err, ErrNotPlanned)

	j, err = OpenPlannedJournal(root, mark.ID)
	require.NoError(t, err)
	_, err = OpenPlannedJournal(root, mark.ID)
	require.ErrorIs(t, err, fsys.ErrLocked)
	require.NoError(t, j.Remove())
	j.Close()
	_, found, err = ReadPlanMark(root)
	require.NoError(t, err)
	require.False(t, found)
	j, err = OpenJournal(root, JournalName(""))
	require.NoError(t, err)
	j.Close()
}

func TestADamagedMarkKeepsOtherCopiesOut(t *testing.T) {
	for _, text := range []string{"", "0a\n/plan", strings.Repeat("0a", 16), strings.Repeat("0a", 16) + "\n"} {
		path := t.TempDir()
		root, err := fsys.OpenRoot(path)
		require.NoError(t, err)
		defer root.Close()
		require.NoError(t, os.Mkdir(filepath.Join(path, JournalName("")), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path, JournalName(""), planName), []byte(text), 0o600))
		_, err = OpenJournal(root, JournalName(""))
		require.ErrorContains(t, err, "damaged")
	}
}

func TestAnInterruptedPlannerTakesOverItsMark(t *testing.T) {
	root, err := fsys.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	mine, other := "/plan", "/other"
	j, err := OpenJournalToPlan(root, mine)
	require.NoError(t, err)
	require.NoError(t, j.MarkPlan(PlanMark{strings.Repeat("0a", 16), mine}))
	j.Close()
	_, err = OpenJournalToPlan(root, other)
	require.ErrorAs(t, err, new(*PlanError))
	j, err = OpenJournalToPlan(root, mine)
	require.NoError(t, err)
	_, err = OpenJournalToPlan(root, mine)
	require.ErrorIs(t, err, fsys.ErrLocked)
	require.NoError(t, j.removePlanMark())
	require.NoError(t, j.removePlanMark())
	j.Close()
	j, err = OpenJournal(root, JournalName(""))
	require.NoError(t, err)
	j.Close()
}
