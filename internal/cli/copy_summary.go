package cli

import (
	"io"
	"strings"

	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/progress"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// printCopySummary writes the account of a copy for people.
func printCopySummary(w io.Writer, o *engine.Options, s *engine.Summary, r *copyReporter, result outcome) {
	var t table
	failures, mismatches := r.counts()
	done := "copied"
	if s.DryRun {
		done = "would copy"
	}
	t.row(done, countsOf(s))
	if s.DryRun {
		t.row("size", progress.Size(s.Bytes))
	} else {
		t.row("size", sizeAndTime(s.Bytes, s.Elapsed))
	}
	if limit := limitOf(s); limit != nil {
		t.row("limited by", limited(limit, len(s.Targets) > 1))
	}
	if s.ResumedFiles > 0 || s.ResumedBytes > 0 {
		t.row("continued", resumed(s))
	}
	t.counts([]count{
		{"skipped", s.Skipped}, {"conflicts", s.Conflicts}, {"mismatches", mismatches},
		{"warnings", s.Warnings}, {"errors", failures},
	})
	for _, target := range s.Targets {
		if target.Lost != nil {
			t.row("given up", quote.Name(target.Path)+": "+quote.Text(target.Lost.Error()))
		}
		if o.Verify != engine.VerifyOff && !s.DryRun && target.Lost == nil {
			t.row("verified", readBack(&target, len(s.Targets) > 1))
		}
		for _, m := range target.Manifests {
			t.row("manifest", quote.Name(m.Path)+", "+lines(m))
			if m.SHA256 != "" {
				t.row("sha256", m.SHA256) // of the manifest itself; 76 columns
			}
		}
	}
	t.print(w, result)
}

// resumed says what an interrupted copy had done, of which one number at least
// is not 0: a file may have been continued in its middle, and files may be empty.
func resumed(s *engine.Summary) string {
	var done []string
	if s.ResumedFiles > 0 {
		done = append(done, plural(s.ResumedFiles, "file"))
	}
	if s.ResumedBytes > 0 {
		done = append(done, progress.Size(s.ResumedBytes))
	}
	return strings.Join(done, " and ") + " that an interrupted copy had done"
}

// readBack says how many files of a destination were verified, and through what.
func readBack(t *engine.TargetSummary, several bool) string {
	text := plural(t.Verified, "file")
	switch {
	case t.Verified == 0:
	case t.Cached == 0:
		text += ", read back from the device"
	case t.Cached < t.Verified:
		text += ", " + grouped(t.Cached) + " of them verified through cache (no device to read)"
	default:
		text += ", verified through cache (no device to read)"
	}
	if several {
		text = quote.Name(t.Path) + ": " + text
	}
	return text
}

// countsOf lists what was copied; files are always named.
func countsOf(s *engine.Summary) string {
	counts := []string{plural(s.Files, "file")}
	for _, c := range []struct {
		n    int64
		noun string
	}{
		{s.Directories, "directory"},
		{s.Links, "symbolic link"},
		{s.HardLinks, "hard link"},
		{s.Specials, "special file"},
	} {
		if c.n > 0 {
			counts = append(counts, plural(c.n, c.noun))
		}
	}
	return strings.Join(counts, ", ")
}
