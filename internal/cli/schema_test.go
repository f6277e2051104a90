package cli

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/failure"
	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
)

// The schemas of docs/schema are made from the outcomes of the commands: the JSON tags give the
// fields, and their comments the descriptions. UPDATE_GOLDEN=1 writes them.

// An outcomeSchema is the schema of one command.
type outcomeSchema struct {
	outcome  any
	about    string
	verdicts []string
}

var outcomeSchemas = map[string]outcomeSchema{
	"copy":    {copyOutcome{}, "The report of a copy", []string{"complete", "not_complete", "would_be_complete", "would_not_be_complete"}},
	"verify":  {verifyOutcome{}, "The report of a verification", []string{"verified", "not_verified"}},
	"scrub":   {scrubOutcome{}, "The report of a scrub", []string{"scrubbed", "damaged", "not_complete"}},
	"repair":  {repairOutcome{}, "The report of a repair", []string{"repaired", "nothing_to_repair", "repairable", "not_repaired"}},
	"compare": {compareOutcome{}, "The report of a comparison", []string{"equal", "not_equal", "not_compared"}},
	"sum":     {sumOutcome{}, "The digests of files", []string{"complete", "not_complete"}},
	"du":      {duOutcome{}, "The disk usage of paths", []string{"complete", "not_complete"}},
	"stream":  {streamOutcome{}, "The report of a stream", []string{"complete", "not_complete"}},
	"plan":    {planOutcome{}, "The report of a plan", []string{"planned", "no_plan", "planned_with_errors"}},
	"run":     {runOutcome{}, "The report of one or more shards", []string{"complete", "not_complete", "not_finished"}},
	"merge":   {mergeOutcome{}, "The report of a merge, or the states of the shards", []string{"complete", "not_complete", "ready", "abandoned", "not_abandoned"}},
}

// knownWords are the words of texts, by their keys, in all commands. Words may be added.
var knownWords = map[string][]string{
	"verdict": {"complete", "not_complete", "would_be_complete", "would_not_be_complete", "not_finished"}, // of a destination or shard
	"cause": {
		outcomes.Full, outcomes.Lost, outcomes.Differs, outcomes.Missing, outcomes.Changed, outcomes.Partial, outcomes.Forbidden, outcomes.Damaged,
		outcomes.Failed, outcomes.Conflicts, outcomes.Unfinished, outcomes.Interrupted,
	},
	"event": {
		"failed", "mismatch", "missing", "invalid", "incomplete", "destination_dropped", // of failures
		"rotted", "changed", "differs", // of a scrub
		"only_in", "type_differs", "metadata_differs", // of a comparison
	},
	"place":  {"source", "cpu", "destination", "limit"},
	"hint":   {"always", "update", "checksum"},
	"kind":   {"regular file", "directory", "symbolic link", "fifo", "socket", "character device", "block device", "special file"},
	"damage": {"mismatch", "missing", "unreadable"},
	"result": {"repaired", "left", "failed"},
	"state": {
		"finished", "in_progress", "stopped", "not_begun", // of merge
		"finished_before", "finished_by_another_task", "merged_before", "not_finished", // of run
	},
	"stage": {
		string(failure.StageScan), string(failure.StageOpen), string(failure.StageRead), string(failure.StageCheck), string(failure.StageCreate),
		string(failure.StageWrite), string(failure.StageMetadata), string(failure.StageSync), string(failure.StageCommit), string(failure.StageVerify),
		string(failure.StageManifest), string(failure.StageJournal), "destination", "",
	},
}

// commonSchema has the types that several commands share.
const commonSchema = "common.json"

func TestTheSchemasAreThoseOfTheOutcomes(t *testing.T) {
	t.Parallel()
	root, usedBy := rootThat(runs{}), map[reflect.Type]map[string]bool{}
	for name, s := range outcomeSchemas {
		noteTypes(usedBy, name, reflect.TypeOf(s.outcome))
	}
	common := schemaWriter{t: t, isCommon: func(typ reflect.Type) bool { return len(usedBy[typ]) > 1 }}
	for typ := range usedBy {
		if common.isCommon(typ) {
			common.define(typ)
		}
	}
	writeSchema(t, commonSchema, &schemaNode{Title: "Types of the output of --json", Description: "Objects that several commands print.", Defs: common.defs})
	for name, s := range outcomeSchemas {
		cmd, _, err := root.Find([]string{name})
		require.NoError(t, err)
		w := schemaWriter{t: t, isCommon: common.isCommon, elsewhere: commonSchema}
		object := w.object(reflect.TypeOf(s.outcome))
		object.Title = "sealift " + name + " --json"
		object.Description = s.about + ": one object on one line of standard output, also after failures and signals. A refused command prints an object of refusal.json."
		object.Defs = w.defs
		object.property("command").Const = name
		object.property("verdict").Examples = s.verdicts
		for _, row := range exitCodesOf(cmd) {
			if row.code != 2 { // a refused command prints an object of refusal.json
				object.property("exit_code").Enum = append(object.property("exit_code").Enum, row.code)
			}
		}
		writeSchema(t, name+".json", object)
	}
}

// noteTypes notes which types a command prints.
func noteTypes(usedBy map[reflect.Type]map[string]bool, command string, typ reflect.Type) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		noteTypes(usedBy, command, typ.Elem())
	case reflect.Struct:
		for field := range typ.Fields() {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if key == "" && !field.Anonymous || key == "-" {
				continue
			}
			noteTypes(usedBy, command, field.Type)
			of := field.Type
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			if key != "" && of.Kind() == reflect.Struct {
				if usedBy[of] == nil {
					usedBy[of] = map[string]bool{}
				}
				usedBy[of][command] = true
			}
		}
	}
}

// writeSchema compares a schema with its file.
func writeSchema(t *testing.T, name string, schema *schemaNode) {
	t.Helper()
	schema.Schema = "https://json-schema.org/draft/2020-12/schema"
	slices.SortFunc(schema.Defs, func(a, b property) int { return strings.Compare(a.key, b.key) })
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(schema))
	file := filepath.Join("..", "..", "docs", "schema", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, text.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text.String(), "%s: UPDATE_GOLDEN=1 writes it", file)
}

// A schemaNode is a JSON Schema, in the order in which people read one.
type schemaNode struct {
	Schema          string        `json:"$schema,omitempty"`
	Title           string        `json:"title,omitempty"`
	Description     string        `json:"description,omitempty"`
	Ref             string        `json:"$ref,omitempty"`
	OneOf           []*schemaNode `json:"oneOf,omitempty"`
	Type            any           `json:"type,omitempty"` // a name, or a name and "null"
	Const           any           `json:"const,omitempty"`
	Enum            []int         `json:"enum,omitempty"`
	Examples        []string      `json:"examples,omitempty"`
	Format          string        `json:"format,omitempty"`
	Pattern         string        `json:"pattern,omitempty"`
	ContentEncoding string        `json:"contentEncoding,omitempty"`
	Minimum         *int          `json:"minimum,omitempty"`
	Items           *schemaNode   `json:"items,omitempty"`
	Properties      properties    `json:"properties,omitempty"`
	Required        []string      `json:"required,omitempty"`
	Defs            properties    `json:"$defs,omitempty"`
}

type property struct {
	key  string
	node *schemaNode
}

// properties are an object with its keys in order.
type properties []property

func (p properties) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, entry := range p {
		if i > 0 {
			out = append(out, ',')
		}
		key, _ := json.Marshal(entry.key) // a string has no error
		var value bytes.Buffer
		encoder := json.NewEncoder(&value)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(entry.node); err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value.Bytes()...)
	}
	return append(out, '}'), nil
}

// property returns the schema of a field.
func (n *schemaNode) property(key string) *schemaNode {
	return n.Properties[slices.IndexFunc(n.Properties, func(p property) bool { return p.key == key })].node
}

// A schemaWriter makes the schema of one file.
type schemaWriter struct {
	t         *testing.T
	isCommon  func(reflect.Type) bool
	elsewhere string // the file that has common types; "" if it is this one
	defs      properties
}

// object returns the schema of a struct. The fields of an embedded struct are its own. A comment of
// an embedded struct is about its first field.
func (w *schemaWriter) object(typ reflect.Type) *schemaNode {
	node := &schemaNode{Type: "object"}
	w.addFields(node, typ, "")
	return node
}

// define adds a type to the definitions.
func (w *schemaWriter) define(typ reflect.Type) {
	name := defName(typ)
	if !slices.ContainsFunc(w.defs, func(p property) bool { return p.key == name }) {
		w.defs = append(w.defs, property{name, w.object(typ)})
	}
}

func (w *schemaWriter) addFields(node *schemaNode, typ reflect.Type, first string) {
	comments := commentsOf(w.t, typ)
	for field := range typ.Fields() {
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		about := comments[field.Name]
		if first != "" {
			about, first = first, ""
		}
		switch {
		case key == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			w.addFields(node, field.Type, about)
		case key != "" && key != "-":
			of, optional := field.Type, strings.Contains(options, "omit")
			if optional && of.Kind() == reflect.Pointer { // absent where others are null
				of = of.Elem()
			}
			value := w.value(key, of)
			value.Description = sentence(about)
			assert.NotEmpty(w.t, about, "%s.%s has no comment", typ, field.Name)
			node.Properties = append(node.Properties, property{key, value})
			if !optional {
				node.Required = append(node.Required, key)
			}
		}
	}
}

// value returns the schema of a value without its description.
func (w *schemaWriter) value(key string, typ reflect.Type) *schemaNode {
	node, zero := &schemaNode{}, 0
	switch typ.Kind() {
	case reflect.Pointer:
		node = w.value(key, typ.Elem())
		if node.Ref != "" {
			return &schemaNode{OneOf: []*schemaNode{node, {Type: "null"}}}
		}
		node.Type = []any{node.Type, "null"}
	case reflect.Struct:
		node.Ref = "#/$defs/" + defName(typ)
		if w.isCommon(typ) {
			node.Ref = w.elsewhere + node.Ref
		} else {
			w.define(typ)
		}
	case reflect.Slice:
		node.Type, node.Items = "array", w.value(key, typ.Elem())
	case reflect.Bool:
		node.Type = "boolean"
	case reflect.String:
		node.Type, node.Examples = "string", knownWords[key]
		switch key {
		case "algorithm":
			node = &schemaNode{Ref: "hash.json"}
		case "start", "end", "begun", "ended":
			node.Format = "date-time"
		case "path_base64":
			node.ContentEncoding = "base64"
		case "sha256":
			node.Pattern = "^([0-9a-f]{64})?$"
		}
	case reflect.Float64:
		node.Type, node.Minimum = "number", &zero
	default:
		node.Type, node.Minimum = "integer", &zero
		switch key {
		case "schema":
			node = &schemaNode{Const: jsonSchema}
		case "exit_code":
			node = &schemaNode{}
		}
	}
	return node
}

// defName returns the name of a type in a schema: its package, if that is another one, and its name.
func defName(typ reflect.Type) string {
	name := []rune(strings.TrimSuffix(typ.Name(), "JSON"))
	switch of := path.Base(typ.PkgPath()); of {
	case "cli":
		name[0] = unicode.ToLower(name[0])
	case "engine":
		return "copy" + string(name)
	default:
		return of + string(name)
	}
	return string(name)
}

// sentence returns a comment as a sentence.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return ""
	}
	letters := []rune(text)
	letters[0] = unicode.ToUpper(letters[0])
	return strings.TrimSuffix(string(letters), ".") + "."
}

// commentsOf returns the comments of the fields of a struct.
func commentsOf(t *testing.T, typ reflect.Type) map[string]string {
	dir := filepath.Join("..", path.Base(typ.PkgPath()))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	comments := map[string]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if !bytes.Contains(text, []byte("type "+typ.Name()+" struct")) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != typ.Name() {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				about := field.Doc.Text()
				if about == "" {
					about = field.Comment.Text()
				}
				for _, name := range field.Names {
					comments[name.Name] = about
				}
				if len(field.Names) == 0 {
					embedded := field.Type
					if selector, ok := embedded.(*ast.SelectorExpr); ok {
						embedded = selector.Sel
					}
					comments[embedded.(*ast.Ident).Name] = about
				}
			}
			return false
		})
	}
	return comments
}
