//go:build linux

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// troubleshooting is the page with messages, their causes and what to do.
const troubleshooting = "docs/troubleshooting.md"

// TestTroubleshootingPage compares the messages of the page with the code. Each message of the page
// must be a text of the code. In the other direction, these texts must be on the page:
//
//   - the exit codes of copy, except for 0;
//   - every refusal of package route: it refuses what is wrong with the paths of a copy;
//   - every reason of a conflict;
//   - every next step of a summary.
//
// All of them stop a user who has to do something, and none of them names the cause.
func TestTroubleshootingPage(t *testing.T) {
	code := readCode(t)
	var messages [][]string
	page := strings.Join(parsePage(troubleshooting, string(readSource(t, troubleshooting))).prose, "\n")
	for _, item := range regexp.MustCompile("(?m)^- (`[^`]*`[;,]\\s+)*`[^`]*`:").FindAllString(page, -1) {
		for _, span := range inlineCode.FindAllStringSubmatch(item, -1) {
			messages = append(messages, fixedParts(span[1], `\.\.\.`))
		}
	}
	if len(messages) < 80 {
		t.Fatalf("the page has %d messages: the lists are not read", len(messages))
	}
	codes, err := exec.Command("sealift", "copy", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^  (\d+) {2,}\S`).FindAllStringSubmatch(string(codes), -1) {
		if code := found[1]; code != "0" && !slices.ContainsFunc(messages, func(m []string) bool { return m[0] == code }) {
			t.Errorf("%s has no exit code %s", troubleshooting, code)
		}
	}
	for _, m := range messages {
		if _, err := strconv.Atoi(m[0]); err == nil {
			continue // an exit code
		}
		for _, part := range m {
			if !slices.ContainsFunc(code.texts, func(text string) bool { return strings.Contains(text, part) }) {
				t.Errorf("%s has the message %q, but no text of the code has %q", troubleshooting, strings.Join(m, "..."), part)
			}
		}
	}
	if len(code.needed) < 50 {
		t.Fatalf("only %d texts are needed: the code is not read", len(code.needed))
	}
	for _, needed := range code.needed {
		covers := func(m []string) bool { return slices.Equal(m, needed) }
		if !slices.ContainsFunc(messages, covers) {
			t.Errorf("%s lacks the message %q", troubleshooting, strings.Join(needed, "..."))
		}
	}
}

// codeTexts has texts of the program, without tests.
type codeTexts struct {
	texts  []string   // all string literals
	needed [][]string // the fixed parts of messages that the page must have
}

// readCode reads the string literals of the program.
func readCode(t *testing.T) codeTexts {
	t.Helper()
	var code codeTexts
	err := filepath.WalkDir(filepath.Join(docsRoot, "internal"), func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					code.texts = append(code.texts, literal(n))
				}
			case *ast.CallExpr:
				if len(n.Args) > 0 && isNeeded(file.Name.Name, n.Fun) {
					code.need(n.Args[0])
				}
			case *ast.CompositeLit:
				code.needReason(n)
			case *ast.FuncDecl:
				if file.Name.Name == "outcome" && n.Name.Name == "Next" {
					code.needSteps(n.Body)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// isNeeded reports whether the first argument of a call is a text that the page must have.
func isNeeded(pkg string, fun ast.Expr) bool {
	name := nameOf(fun)
	return pkg == "route" && name == "Refuse" || pkg == "policy" && name == "conflict"
}

// nameOf returns a name without its package.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// needReason adds the reason of a conflict.
func (c *codeTexts) needReason(value *ast.CompositeLit) {
	if nameOf(value.Type) != "Conflict" {
		return
	}
	for _, field := range value.Elts {
		if field, ok := field.(*ast.KeyValueExpr); ok && nameOf(field.Key) == "Why" {
			c.need(field.Value)
		}
	}
}

// needSteps adds the next steps: the texts in the tables of a function.
func (c *codeTexts) needSteps(body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		if table, ok := n.(*ast.CompositeLit); ok {
			for _, cell := range table.Elts {
				if text, ok := cell.(*ast.BasicLit); ok {
					c.need(text)
				}
			}
		}
		return true
	})
}

// need adds a text, which may be a sum of several. A text without words of its own has the cause from
// the system, and is not added.
func (c *codeTexts) need(text ast.Expr) {
	format := ""
	ast.Inspect(text, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr, *ast.Ident:
			format += "%s"
			return false
		case *ast.BasicLit:
			format += literal(n)
		}
		return true
	})
	parts := fixedParts(format, `%(\[\d\])?[sdq]|\(or .*\)`)
	words := strings.Fields(strings.Join(parts, " "))
	if len(words) >= 2 && !slices.Equal(parts, []string{"plan directory"}) {
		c.needed = append(c.needed, parts)
	}
}

func literal(n *ast.BasicLit) string {
	text, _ := strconv.Unquote(n.Value) // the parser accepted it
	return text
}

// fixedParts returns the parts of a message between its names and numbers, without the
// punctuation and spaces around them.
func fixedParts(message, variable string) (parts []string) {
	for _, part := range regexp.MustCompile(variable).Split(message, -1) {
		if part = strings.Trim(part, " :,;"); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
