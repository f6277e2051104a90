//go:build linux

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFilterTable runs each row of the table of filters in docs/copy.md. It makes the files of the
// second column and copies them by the rules of the first. The copy must have the files of the third.
// A name that ends in a slash is an empty directory.
func TestFilterTable(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, line := range parsePage("docs/copy.md", string(readSource(t, "docs/copy.md"))).prose {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `--") || len(cells) != 3 {
			continue
		}
		rows++
		rules := inlineCode.FindStringSubmatch(cells[0])[1]
		dir := t.TempDir()
		for _, name := range namesIn(cells[1]) {
			file := filepath.Join(dir, "src", name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("bash", "-c", "sealift copy --quiet --hash none "+rules+" src dst") //nolint:gosec // ours
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", rules, err, out)
			continue
		}
		want := namesIn(cells[2])
		slices.Sort(want)
		if got := leavesOf(t, filepath.Join(dir, "dst")); !slices.Equal(want, got) {
			t.Errorf("%s copies %q, but docs/copy.md has %q", rules, got, want)
		}
	}
	if rows < 15 {
		t.Errorf("docs/copy.md has a table of %d rows", rows)
	}
}

// namesIn returns the names in a cell of a table.
func namesIn(cell string) (names []string) {
	for _, found := range inlineCode.FindAllStringSubmatch(cell, -1) {
		names = append(names, found[1])
	}
	return names
}

// leavesOf returns the files and the empty directories of a tree, sorted.
func leavesOf(t *testing.T, root string) (leaves []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if !d.IsDir() {
			leaves = append(leaves, rel)
			return nil
		}
		if entries, err := os.ReadDir(name); err != nil || len(entries) > 0 {
			return err
		}
		leaves = append(leaves, rel+"/")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(leaves)
	return leaves
}
