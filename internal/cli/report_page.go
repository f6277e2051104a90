package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/hash"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
	"github.com/seed65876f4f/sealift/internal/outfile"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/report"
	"github.com/seed65876f4f/sealift/internal/units"
)

// htmlReport collects the data of --report while a command runs, and writes the page at the end.
// A nil *htmlReport collects and writes nothing.
type htmlReport struct {
	place *outfile.Place
	fs    *fsys.FS // system that opens all files; nil for the operating system
	args  []string // the arguments of the program
	begun time.Time
	trees []reportTree

	samples    *report.Samples
	algorithms []hash.Algorithm // the columns of digests in the list of files

	mu struct {
		sync.Mutex
		files    *report.Files
		problems report.Problems
	}
}

// reportTree is the state of the source, a destination or another tree before the run.
type reportTree struct {
	role, path string
	volume     volume
}

// reportFlag defines --report.
func (f *outputFlags) reportFlag(s *pflag.FlagSet) {
	s.StringVar(&f.report, "report", "", "write an HTML report to `FILE`, also if the run fails")
	s.String(flagTitle, "", "begin the report with the title `TEXT`")
	s.String(flagOperator, "", "name `PERSON` as the operator in the report")
	s.String(flagNote, "", "add the note `TEXT` to the report")
}

// The flags for texts of the user in a report.
const (
	flagTitle    = "title"
	flagOperator = "operator"
	flagNote     = "note"
)

var reportTexts = []string{flagTitle, flagOperator, flagNote}

// commandLineKey is the key of the arguments of the program in a context.
type commandLineKey struct{}

// openReport checks that the file of --report can be written, and records the state of the trees
// before the run. It returns nil if the flag was not given. The error is a refusal.
func openReport(cmd *cobra.Command, sys *fsys.FS, file string, trees []reportTree) (*htmlReport, error) {
	if file == "" {
		if cmd.Flags().Changed("report") {
			return nil, usagef("--report: the name is empty")
		}
		for _, name := range reportTexts {
			if cmd.Flags().Changed(name) {
				return nil, usagef("--%s is a text of the report: add --report FILE", name)
			}
		}
		return nil, nil //nolint:nilnil // a nil *htmlReport collects nothing
	}
	if file == "-" {
		return nil, usagef("--report needs a file; to write the page to a file of that name, use ./-")
	}
	place, err := outfile.Open(sys, file, report.Form)
	if err != nil {
		return nil, failure.Refuse("--report %s: %s", quote.Name(file), quote.Text(fsys.BareError(err).Error()))
	}
	args, _ := cmd.Context().Value(commandLineKey{}).([]string)
	r := &htmlReport{place: place, fs: sys, args: args, begun: time.Now(), trees: trees}
	for i := range r.trees {
		r.trees[i].volume = volumeOf(sys, r.trees[i].path)
	}
	r.mu.files = report.NewFiles(r.begun)
	return r, nil
}

// file adds an entry to the list of files.
func (r *htmlReport) file(f *report.File) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.files.Add(f)
}

// mark adds a result, such as "failed", to an entry of the list of files.
func (r *htmlReport) mark(path, result string) {
	if r == nil || path == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.files.Mark(path, result)
}

// settle sets the result of an entry of the list of files, in place of its problem.
func (r *htmlReport) settle(path string, size int64, result string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.files.Settle(path, size, result)
}

// problem adds a problem to the page.
func (r *htmlReport) problem(p report.Problem) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.problems.Add(p)
}

// cause returns the text by which the page groups equal problems: the stage and the error.
func cause(stage failure.Stage, text string) string {
	if stage == "" {
		return text
	}
	return string(stage) + ": " + text
}

// write writes the page of an outcome. If the page cannot be written, write reports that and returns a
// failed outcome.
func (r *htmlReport) write(rep *reporter, result outcome, build func(outcome) summary) outcome {
	if r == nil {
		return result
	}
	s := build(result)
	r.mu.Lock()
	page := r.page(rep.cmd, result, s.elapsed)
	r.mu.Unlock() // nothing is added after the end of the run
	s.fill(page)
	err := r.place.Write(page.Write)
	if fsys.DeviceFull(err) { // the page is small without the list of files
		page.WithoutFiles("There was no space for the list of files on the device of this report.")
		if r.place.Write(page.Write) == nil {
			rep.warning("", "", fmt.Errorf("--report %s: the list of files is left out: %w", quote.Name(r.place.Path), fsys.BareError(err)))
			return result
		}
	}
	if err != nil {
		rep.failure("", "", fmt.Errorf("--report %s: %w", quote.Name(r.place.Path), fsys.BareError(err)))
		result.failed = true
	}
	return result
}

// page returns a page with the data that all commands report.
func (r *htmlReport) page(cmd *cobra.Command, result outcome, elapsed time.Duration) *report.Page {
	ended := time.Now()
	p := &report.Page{
		Command:  cmd.Name(),
		Name:     filepath.Base(r.place.Path),
		Begun:    r.begun,
		Good:     result.code() == 0,
		Samples:  r.samples,
		Files:    r.mu.files,
		Problems: &r.mu.problems,
	}
	given := func(name string) string {
		text, _ := cmd.Flags().GetString(name)
		return text
	}
	p.Title = given(flagTitle)
	p.Job.Add("operator", outcomes.Text(given(flagOperator)))
	p.Job.Add("note", outcomes.Text(given(flagNote)))
	host, _ := os.Hostname()
	p.Job.Add("begun", outcomes.Text(r.begun.Format(reportTime)))
	p.Job.Add("ended", outcomes.Text(ended.Format(reportTime)))
	p.Job.Add("duration", outcomes.Value{Text: duration(elapsed), Path: "seconds", JSON: strconv.FormatFloat(elapsed.Seconds(), 'f', -1, 64)})
	p.Job.Add("user", outcomes.Text(userName()))
	p.Job.Add("host", outcomes.Text(host+" ("+runtime.GOOS+"/"+runtime.GOARCH+")"))
	p.Job.Add("program", outcomes.Text(readBuild().line()))
	p.Job.Add("command", outcomes.Name(strings.Join(commandLine(r.args), " ")))
	p.Job.Add("exit code", outcomes.Number(int64(result.code()), "exit_code").With(": "+meaningOf(cmd, result.code())))
	for _, t := range r.trees {
		p.Trees = append(p.Trees, report.Tree{Role: t.role, Path: t.path, Facts: r.volumeFacts(t)})
	}
	for _, a := range r.algorithms {
		p.Digests = append(p.Digests, string(a))
	}
	p.AppendDigest = func(b []byte, index int, digest []byte) []byte { return r.algorithms[index].AppendText(b, digest) }
	return p
}

const reportTime = "2006-01-02 15:04:05 -07:00"

// userName returns the name of the user, with the name of the user who has called sudo, if any.
func userName() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" && by != name {
		name += ", by sudo from " + by
	}
	return name
}

// commandLine returns the words of the command line, quoted for a shell.
func commandLine(args []string) []string {
	words := []string{"sealift"}
	for _, arg := range args {
		words = append(words, quote.Word(arg))
	}
	return words
}

// volumeFacts describes the volume that holds a tree.
func (r *htmlReport) volumeFacts(t reportTree) (facts outcomes.Rows) {
	add := func(label, text string) { facts.Add(label, outcomes.Text(text)) }
	if path, err := fsys.AbsolutePath(t.path); err == nil && path != t.path {
		add("full path", path)
	}
	v := t.volume
	add("file system", v.FileSystem)
	add("mounted at", v.Mount)
	add("device", v.Source)
	add("volume label", v.Label)
	add("UUID", v.UUID)
	add("disk model", v.Model)
	add("serial number", v.Serial)
	if v.free >= 0 {
		text := units.Size(v.free) + " before"
		if after := volumeOf(r.fs, t.path).free; after >= 0 {
			text += ", " + units.Size(after) + " after"
		}
		add("free space", text)
	}
	return facts
}

// kindName returns the name of a file type; "" for a regular file.
func kindName(k fsys.Kind) string {
	if k == fsys.Regular {
		return ""
	}
	return k.String()
}

// withArgs adds the arguments of the program to a context.
func withArgs(ctx context.Context, args []string) context.Context {
	return context.WithValue(ctx, commandLineKey{}, args)
}
