package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A documented is one schema of docs/schema. It records which declared fields were printed, by any
// command.
type documented struct {
	name     string
	raw      map[string]any
	schemas  map[string]*documented // all of them
	compiled *jsonschema.Schema
	seen     map[string]bool // of all schemas
}

// readSchemas reads docs/schema, by the names without the extension.
func readSchemas(t *testing.T) map[string]*documented {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "schema", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 17)
	schemas, seen, compiler := map[string]*documented{}, map[string]bool{}, jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiler.AssertContent()
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		d := &documented{name: strings.TrimSuffix(filepath.Base(file), ".json"), schemas: schemas, seen: seen}
		require.NoError(t, json.Unmarshal(text, &d.raw), file)
		require.NoError(t, compiler.AddResource(filepath.Base(file), d.raw), file)
		schemas[d.name] = d
	}
	for name, d := range schemas {
		d.compiled, err = compiler.Compile(name + ".json")
		require.NoError(t, err, name)
	}
	return schemas
}

// check validates one line that a program printed. It also requires that each key is
// declared, which the schema itself does not.
func (d *documented) check(t *testing.T, about, line string) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if !assert.NoError(t, err, "%s: %s", about, line) {
		return
	}
	assert.NoError(t, d.compiled.Validate(value), "%s: %s", about, line)
	d.walk(t, about, d.name, d.raw, value)
}

func (d *documented) walk(t *testing.T, about, at string, schema map[string]any, value any) {
	t.Helper()
	d, schema, at = d.resolve(schema, at)
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for key, inner := range value {
			declared, ok := properties[key].(map[string]any)
			if assert.True(t, ok, "%s: %s/%s is not in docs/schema/%s.json", about, at, key, d.name) {
				d.seen[at+"/"+key] = true
				d.walk(t, about, at+"/"+key, declared, inner)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, inner := range value {
			d.walk(t, about, at, items, inner)
		}
	case string:
		if known, ok := schema["examples"].([]any); ok {
			assert.Contains(t, known, value, "%s: %s: %s", about, d.name, at)
		}
	}
}

// definitions begins the names of definitions in references.
const definitions = "#/$defs/"

// resolve follows a reference in a schema, and returns the place of what it found. For a type that
// may be null, it returns the other type.
func (d *documented) resolve(schema map[string]any, at string) (*documented, map[string]any, string) {
	if choices, ok := schema["oneOf"].([]any); ok {
		schema = choices[0].(map[string]any)
	}
	ref, _ := schema["$ref"].(string)
	file, name, isDefinition := strings.Cut(ref, definitions)
	if file != "" {
		d = d.schemas[strings.TrimSuffix(file, ".json")]
	}
	switch {
	case ref == "":
		return d, schema, at
	case isDefinition:
		return d, d.raw["$defs"].(map[string]any)[name].(map[string]any), d.name + definitions + name
	}
	return d, d.raw, d.name
}

// fields lists the fields that a schema declares, and checks that each has a description.
func (d *documented) fields(t *testing.T) (names []string) {
	t.Helper()
	assert.NotEmpty(t, d.raw["description"], d.name)
	names = d.fieldsOf(t, d.name, d.raw)
	defined, _ := d.raw["$defs"].(map[string]any)
	for name, schema := range defined {
		names = append(names, d.fieldsOf(t, d.name+definitions+name, schema.(map[string]any))...)
	}
	return names
}

func (d *documented) fieldsOf(t *testing.T, at string, schema map[string]any) (names []string) {
	t.Helper()
	if schema["type"] == "object" {
		assert.NotContains(t, schema, "additionalProperties", "%s: %s: fields may be added", d.name, at)
	}
	properties, _ := schema["properties"].(map[string]any)
	for key, inner := range properties {
		names = append(names, at+"/"+key)
		assert.NotEmpty(t, inner.(map[string]any)["description"], "%s: %s/%s", d.name, at, key)
		names = append(names, d.fieldsOf(t, at+"/"+key, inner.(map[string]any))...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		names = append(names, d.fieldsOf(t, at, items)...)
	}
	return names
}

func (d *documented) wasAllSeen(t *testing.T) {
	t.Helper()
	for _, field := range d.fields(t) {
		known := d.seen[field] || slices.Contains(sometimesPrinted, field)
		assert.True(t, known, "%s: %s is declared, and was never printed", d.name, field)
	}
}
