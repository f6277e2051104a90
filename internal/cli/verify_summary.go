package cli

import (
	"io"

	"github.com/seed65876f4f/sealift/internal/pipe"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// maxManifestRows is how many manifests a summary names; a directory may hold
// one for every file.
const maxManifestRows = 10

// printVerifySummary writes the account of a check for people.
func printVerifySummary(w io.Writer, o *verify.Options, s *verify.Summary, r *verifyReporter, result outcome) {
	failures, _ := r.counts()
	var t table
	t.row("checked", plural(s.Files, "file"))
	t.row("size", sizeAndTime(s.Bytes, s.Elapsed))
	t.row("matches", grouped(s.Matches))
	t.counts([]count{{"mismatches", s.Mismatches}, {"missing", s.Missing}, {"errors", failures}, {"unlisted", s.Unlisted}, {"incomplete", s.Incomplete}})
	if s.Malformed > 0 {
		t.row("malformed", plural(s.Malformed, "line"))
	}
	t.counts([]count{{"warnings", s.Warnings}})
	if s.Cached > 0 && o.Cache != pipe.CacheAuto {
		t.row("cached", plural(s.Cached, "file")+", perhaps read from memory and not from the device")
	}
	t.manifests(s.Manifests)
	t.print(w, result)
}

func (t *table) manifests(used []verify.ManifestSummary) {
	shown := used
	if len(used) > maxManifestRows {
		shown = used[:maxManifestRows-1]
	}
	for _, m := range shown {
		t.row("manifest", quote.Name(m.Path)+", "+plural(m.Lines, "line"))
	}
	if rest := used[len(shown):]; len(rest) > 0 {
		lines := int64(0)
		for _, m := range rest {
			lines += m.Lines
		}
		t.row("manifests", grouped(int64(len(rest)))+" more, "+plural(lines, "line"))
	}
}
