//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestDocsNames checks the names in the text: flags of the program, targets of make, files
// of the sources, and tests.
func TestDocsNames(t *testing.T) {
	flags := map[string]map[string]bool{"": {"version": true}}
	for _, command := range commandNames(t) {
		cmd := exec.Command("sealift", command, "--help") //nolint:gosec // ours
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		help, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		flags[command] = map[string]bool{}
		for _, found := range regexp.MustCompile(`--([a-z][a-z0-9-]+)`).FindAllStringSubmatch(string(help), -1) {
			flags[command][found[1]], flags[""][found[1]] = true, true
		}
	}
	makefile := string(readSource(t, "Makefile"))
	tests := testsOf(t)
	for _, p := range readDocs(t) {
		for _, found := range inlineCode.FindAllStringSubmatch(strings.Join(p.prose, " "), -1) {
			span := found[1]
			words := strings.Fields(span)
			if len(words) == 0 {
				continue
			}
			command := words[0]
			if command == "sealift" && len(words) > 1 {
				command = words[1]
			}
			known, ours := flags[command]
			if !ours && strings.HasPrefix(command, "-") {
				known, ours = flags[""], true
			}
			if ours {
				for _, flag := range longFlag.FindAllStringSubmatch(span, -1) {
					if !known[flag[1]] {
						t.Errorf("%s: `%s`: there is no flag --%s", p.name, span, flag[1])
					}
				}
			}
			if words[0] == "make" && len(words) > 1 && words[1][0] != '-' && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(words[1])+`:`).MatchString(makefile) {
				t.Errorf("%s: `%s`: there is no such target", p.name, span)
			}
			if goTest.MatchString(span) && !strings.Contains(tests, "func "+span+"(t ") {
				t.Errorf("%s: `%s`: there is no such test", p.name, span)
			}
			file := strings.TrimSuffix(words[0], "/")
			if sourcePath.MatchString(file) && !sourceExists(t, file) ||
				strings.HasSuffix(file, ".go") && strings.Contains(file, "/") && !sourceExists(t, file) && !sourceExists(t, "internal/"+file) {
				t.Errorf("%s: `%s`: there is no such file", p.name, span)
			}
		}
	}
}

// TestDecisionsAreNumbered checks that the records of decisions have the numbers from 1, without a
// hole. Each title has the number of its file, and the list of pages has each record.
func TestDecisionsAreNumbered(t *testing.T) {
	list := string(readSource(t, "docs/README.md"))
	files, err := os.ReadDir(filepath.Join(docsRoot, "docs", "adr"))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		title, _, _ := strings.Cut(string(readSource(t, "docs/adr/"+f.Name())), "\n")
		if !strings.HasPrefix(f.Name(), fmt.Sprintf("%04d-", i+1)) || !strings.HasPrefix(title, fmt.Sprintf("# %d. ", i+1)) {
			t.Errorf("%s, %q: want number %d", f.Name(), title, i+1)
		}
		if link := fmt.Sprintf("[ADR %d](adr/%s)", i+1, f.Name()); !strings.Contains(list, link) {
			t.Errorf("docs/README.md: %s is missing", link)
		}
	}
}

// TestReadmeIsShort checks that the README does not grow into a manual.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(string(readSource(t, "README.md")), "\n"); n > 140 {
		t.Errorf("README.md has %d lines; at most 140: move details to docs", n)
	}
}

// TestDocsNameEveryCommand checks that a page has each command.
func TestDocsNameEveryCommand(t *testing.T) {
	var pages strings.Builder
	for _, p := range readDocs(t) {
		pages.Write(readSource(t, p.name))
	}
	for _, command := range commandNames(t) {
		if command != "help" && !regexp.MustCompile(`\bsealift `+command+`\b`).MatchString(pages.String()) {
			t.Errorf("no page has the command \"sealift %s\"", command)
		}
	}
}

// commandNames returns the names of all commands, as shell completion lists them.
func commandNames(t *testing.T) []string {
	t.Helper()
	names, err := exec.Command("sealift", "__completeNoDesc", "").Output()
	if err != nil {
		t.Fatal(err)
	}
	list, _, found := strings.Cut(string(names), "\n:") // a number that controls the shell follows
	if !found {
		t.Fatalf("no list of commands:\n%s", names)
	}
	return strings.Fields(list)
}

func readSource(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docsRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// sourceExists reports whether a path or pattern matches an existing file.
func sourceExists(t *testing.T, pattern string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(docsRoot, filepath.FromSlash(pattern)))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// testsOf returns the text of all tests.
func testsOf(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(docsRoot, dir), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name) //nolint:gosec // ours
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// TestDocsLinks follows the links between pages, and to files and headings.
func TestDocsLinks(t *testing.T) {
	pages := readDocs(t)
	anchors := map[string][]string{}
	for _, p := range pages {
		for _, line := range p.prose {
			if found := heading.FindStringSubmatch(line); found != nil {
				anchors[p.name] = append(anchors[p.name], anchorOf(found[1], anchors[p.name]))
			}
		}
	}
	linked := map[string]bool{"docs/README.md": true}
	for _, p := range pages {
		for i, line := range p.prose {
			for _, found := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, "code"), -1) {
				target := found[1] + found[2]
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				name, anchor, _ := strings.Cut(target, "#")
				if name = path.Join(path.Dir(p.name), name); strings.HasPrefix(target, "#") {
					name = p.name
				}
				if !sourceExists(t, name) {
					t.Errorf("%s:%d: there is no %s", p.name, i+1, name)
				} else if anchor != "" && !slices.Contains(anchors[name], anchor) {
					t.Errorf("%s:%d: %s has no heading for #%s", p.name, i+1, name, anchor)
				}
				if p.name == "docs/README.md" {
					linked[name] = true
				}
			}
		}
	}
	for _, p := range pages {
		if strings.HasPrefix(p.name, "docs/") && !linked[p.name] {
			t.Errorf("docs/README.md does not list %s", p.name)
		}
	}
}

// anchorOf returns the anchor that GitHub generates for a heading, and a number if
// the anchors before it have that one.
func anchorOf(text string, before []string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.ReplaceAll(text, "`", "")) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			b.WriteRune(r)
		}
	}
	anchor := b.String()
	for n := 1; slices.Contains(before, anchor); n++ {
		anchor = fmt.Sprintf("%s-%d", b.String(), n)
	}
	return anchor
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	longFlag   = regexp.MustCompile(`(?:^|[ (\[])--([a-z][a-z0-9-]*)`)
	goTest     = regexp.MustCompile(`^Test[A-Z]\w*$`)
	sourcePath = regexp.MustCompile(`^(\.ci|cmd|docs|internal|scripts|testdata|tools)/[^ ]*$`)
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)|(?:href|src|srcset)="([^"]+)"`)
	heading = regexp.MustCompile(`^#{1,6} +(.*)$`)
)
