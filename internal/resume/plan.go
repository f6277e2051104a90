package resume

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// PlanMark names the plan of a destination. The mark is in the destination's journal from
// the plan to the end of its merge. It proves to tasks on other machines that they have the
// right destination, and excludes other tree copies.
type PlanMark struct {
	ID   string // 32 hexadecimal digits
	Path string // absolute path of the plan's directory, on the machine that made it
}

// planName is the file in the journal that holds a PlanMark.
const planName = "plan"

// maxMark is the size of the longest mark, in bytes.
const maxMark = 1 << 20

// A PlanError says that a plan is at work at a destination.
type PlanError struct{ PlanMark }

func (e *PlanError) Error() string {
	plan := quote.Name(e.Path)
	return fmt.Sprintf("the plan %s is at work there; sealift merge %s completes it, and sealift merge --abandon %s ends it", plan, plan, plan)
}

// ErrNotPlanned says that a destination does not have the mark of the plan.
var ErrNotPlanned = errors.New("it is not the destination of the plan: it is not mounted on this machine, or it is another one")

// MarkPlan leaves the mark in a locked journal, on the device.
func (j *Journal) MarkPlan(m PlanMark) error {
	if err := put(j.dir, planName, []byte(m.ID+"\n"+m.Path), true); err != nil {
		return err
	}
	return errors.Join(j.dir.Sync(), j.root.Sync())
}

// ReadPlanMark reads the mark at a destination. found is false if there is none.
func ReadPlanMark(root *fsys.Dir) (m PlanMark, found bool, err error) {
	dir, err := root.OpenDir(JournalName(""))
	if errors.Is(err, fs.ErrNotExist) || err != nil && fsys.IsSymlinkRefusal(err) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	defer dir.Close()
	return readMark(dir)
}

func readMark(dir *fsys.Dir) (m PlanMark, found bool, err error) {
	file, info, err := dir.OpenRegular(planName)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	defer file.Close()
	text, err := io.ReadAll(file.Reader(min(info.Size, maxMark)))
	if err != nil {
		return m, false, err
	}
	var cut bool
	m.ID, m.Path, cut = strings.Cut(string(text), "\n")
	if id, err := hex.DecodeString(m.ID); err != nil || len(id) != 16 || !cut || m.Path == "" {
		return m, true, errors.New("the mark of a plan in the journal is damaged")
	}
	return m, true, nil
}

// OpenPlannedJournal is OpenJournal for the merge of a plan. The error is ErrNotPlanned if the
// journal does not have the plan's mark.
func OpenPlannedJournal(root *fsys.Dir, id string) (*Journal, error) {
	m, found, err := ReadPlanMark(root)
	if err != nil {
		return nil, err
	}
	if !found || m.ID != id {
		return nil, ErrNotPlanned
	}
	return tryJournal(root, JournalName(""))
}

// OpenJournalToPlan is OpenJournal of a tree for a plan that is made in the directory path. It also
// opens a journal with the mark of an earlier plan there, which was interrupted or is lost.
func OpenJournalToPlan(root *fsys.Dir, path string) (*Journal, error) {
	m, found, err := ReadPlanMark(root)
	if err != nil {
		return nil, err
	}
	if found && m.Path == path {
		return tryJournal(root, JournalName(""))
	}
	return OpenJournal(root, JournalName(""))
}

// removePlanMark removes the mark from a locked journal, on the device.
func (j *Journal) removePlanMark() error {
	if err := remove(j.dir, planName); err != nil {
		return err
	}
	return j.dir.Sync()
}

// refusePlanned returns a *PlanError if a plan is at work.
func (j *Journal) refusePlanned() error {
	m, found, err := readMark(j.dir)
	if err == nil && found {
		err = &PlanError{m}
	}
	return err
}
