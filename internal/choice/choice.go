// Package choice holds the tables of options that have a fixed set of values: one table
// names the values, and parsing, messages, help and shell completion read it.
package choice

import (
	"fmt"
	"slices"
	"strings"
)

// Table names the values of one option. A new value is one row of Names.
type Table[T ~uint8] struct {
	What  string   // name of the option in messages: "cache mode"
	Names []string // names by value, in the order of help and completion; "" for a value that cannot be chosen
}

// Name returns the name of a value.
func (t Table[T]) Name(value T) string { return t.Names[value] }

// List returns the names that can be chosen.
func (t Table[T]) List() []string {
	return slices.DeleteFunc(slices.Clone(t.Names), func(name string) bool { return name == "" })
}

// Parse returns the value with a name. The error lists the names that can be chosen.
func (t Table[T]) Parse(name string) (T, error) {
	if i := slices.Index(t.Names, name); i >= 0 && name != "" {
		return T(i), nil
	}
	return 0, fmt.Errorf("unknown %s %q; known are %s", t.What, name, strings.Join(t.List(), ", "))
}

// Without returns the table of a command that does not have one of the values.
func (t Table[T]) Without(value T) Table[T] {
	t.Names = slices.Clone(t.Names)
	t.Names[value] = ""
	return t
}
