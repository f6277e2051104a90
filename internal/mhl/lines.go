package mhl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/extsort"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// writeLines writes the files of the histories as lines of a manifest in BSD's style, sorted
// by path. choose selects the hashes of each file. So code that checks line manifests can
// check a history.
func (t *Tree) writeLines(w io.Writer, choose func(*Record) []Known) error {
	out := bufio.NewWriterSize(w, 64<<10)
	escape := strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`)
	err := t.Each(func(r *Record) error {
		if r.IsDir {
			return nil
		}
		if len(r.Known) == 0 {
			return &ChainError{r.Path, errors.New("every hash of it is one that failed")}
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

// IsGeneration reports whether a file with this beginning is a generation of ASC MHL 2.0, and
// not a media hash list of version 1.
func IsGeneration(beginning []byte) bool { return bytes.Contains(beginning, []byte(namespace)) }

// GenerationLines writes the files of one generation as lines, as Tree.Lines does.
func GenerationLines(r io.Reader, choose func(*Record) []Known, newSpill func() (extsort.Spill, error)) (lines extsort.Spill, size int64, err error) {
	t := &Tree{records: newRecords(newSpill)}
	defer t.Close() //nolint:errcheck // a temporary that is not needed any more
	if _, err := ReadGeneration(r, func(l Listed) error { return t.records.add(l.Path, l, 0, 1) }); err != nil {
		return nil, 0, err
	}
	return t.Lines(choose, newSpill)
}

// First chooses the hash of a file that the oldest generation lists.
func First(r *Record) []Known { return r.Known[:1] }

// All chooses every hash of a file.
func All(r *Record) []Known { return r.Known }

// Of returns a function that chooses the hash of one algorithm.
func Of(a hash.Algorithm) func(*Record) []Known {
	return func(r *Record) []Known {
		i := slices.IndexFunc(r.Known, func(k Known) bool { return k.Algorithm == a })
		if i < 0 {
			return nil
		}
		return r.Known[i : i+1]
	}
}

// Lines writes the lines into a temporary file, and returns the file and its size.
func (t *Tree) Lines(choose func(*Record) []Known, newSpill func() (extsort.Spill, error)) (lines extsort.Spill, size int64, err error) {
	if lines, err = newSpill(); err != nil {
		return nil, 0, err
	}
	counted := &countingWriter{w: lines}
	if err = t.writeLines(counted, choose); err != nil {
		return nil, 0, errors.Join(err, lines.Close())
	}
	return lines, counted.n, nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
