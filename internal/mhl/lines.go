package mhl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed65876f4f/sealift/internal/manifest"
)

// WriteLines writes what the histories list as lines of a manifest in BSD's style, sorted by
// path, with those hashes of each file that choose returns. So everything that checks line
// manifests can check a history.
func (t *Tree) WriteLines(w io.Writer, choose func(*Record) []Known) error {
	out := bufio.NewWriterSize(w, 64<<10)
	escape := strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`)
	err := t.Each(func(r *Record) error {
		if r.IsDir {
			return nil
		}
		if len(r.Known) == 0 {
			return fmt.Errorf("%.200q: every hash of it is one that failed", r.Path)
		}
		path, mark := escape.Replace(r.Path), ""
		if path != r.Path {
			mark = `\`
		}
		for _, k := range choose(r) {
			fmt.Fprintf(out, "%s%s (%s) = %s\n", mark, k.Algorithm.Tags()[0], path, k.Algorithm.Text(k.Sum))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// First chooses the hash of a file that the oldest generation lists.
func First(r *Record) []Known { return r.Known[:1] }

// TempSpill makes a temporary file in the directory of the system for such.
func TempSpill() (manifest.Spill, error) {
	f, err := os.CreateTemp("", "sealift-mhl-")
	if err != nil {
		return nil, err
	}
	return &tempSpill{f}, nil
}

type tempSpill struct{ *os.File }

// Close removes the file, too.
func (s *tempSpill) Close() error { return errors.Join(s.File.Close(), os.Remove(s.Name())) }
