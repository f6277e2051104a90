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

// A documented is one schema of docs/schema. It records which declared fields were printed.
type documented struct {
	name     string
	raw      map[string]any
	hashes   map[string]any // hashSchema
	compiled *jsonschema.Schema
	seen     map[string]bool
}

// hashSchema is the schema that lists the hashes. Others refer to it.
const hashSchema = "hash.json"

// readSchemas reads docs/schema, by the names without the extension.
func readSchemas(t *testing.T) map[string]*documented {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "schema", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 16)
	schemas := map[string]*documented{}
	var hashes any
	list, err := os.ReadFile(filepath.Join("..", "..", "docs", "schema", hashSchema))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(list, &hashes))
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		d := &documented{name: strings.TrimSuffix(filepath.Base(file), ".json"), hashes: hashes.(map[string]any), seen: map[string]bool{}}
		require.NoError(t, json.Unmarshal(text, &d.raw), file)
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		compiler.AssertContent()
		require.NoError(t, compiler.AddResource(d.name, d.raw), file)
		require.NoError(t, compiler.AddResource(hashSchema, hashes), file)
		d.compiled, err = compiler.Compile(d.name)
		require.NoError(t, err, file)
		schemas[d.name] = d
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
	d.walk(t, about, "", d.raw, value)
}

func (d *documented) walk(t *testing.T, about, at string, schema map[string]any, value any) {
	t.Helper()
	schema = d.resolve(schema)
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for key, inner := range value {
			declared, ok := properties[key].(map[string]any)
			if assert.True(t, ok, "%s: %s%s/%s is not in docs/schema/%[2]s.json", about, d.name, at, key) {
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
			assert.Contains(t, known, value, "%s: %s%s", about, d.name, at)
		}
	}
}

// resolve follows a reference in a schema. For a type that may be null, it returns the
// other type.
func (d *documented) resolve(schema map[string]any) map[string]any {
	if choices, ok := schema["oneOf"].([]any); ok {
		schema = choices[0].(map[string]any)
	}
	switch name, _ := schema["$ref"].(string); name {
	case "":
	case hashSchema:
		return d.hashes
	default:
		schema = d.raw["$defs"].(map[string]any)[strings.TrimPrefix(name, "#/$defs/")].(map[string]any)
	}
	return schema
}

// fields lists the fields that a schema declares, and checks that each has a description.
func (d *documented) fields(t *testing.T, at string, schema map[string]any) (names []string) {
	t.Helper()
	schema = d.resolve(schema)
	assert.NotEmpty(t, schema["description"], "%s%s", d.name, at)
	if schema["type"] == "object" {
		assert.NotContains(t, schema, "additionalProperties", "%s%s: fields may be added", d.name, at)
	}
	properties, _ := schema["properties"].(map[string]any)
	for key, inner := range properties {
		names = append(names, at+"/"+key)
		names = append(names, d.fields(t, at+"/"+key, inner.(map[string]any))...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		names = append(names, d.fields(t, at, items)...)
	}
	return names
}

func (d *documented) wasAllSeen(t *testing.T) {
	t.Helper()
	for _, field := range d.fields(t, "", d.raw) {
		known := d.seen[field] || slices.Contains(sometimesPrinted, d.name+field)
		assert.True(t, known, "%s%s is declared, and was never printed", d.name, field)
	}
}
