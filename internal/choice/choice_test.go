package choice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type colour uint8

var colours = Table[colour]{What: "colour", Names: []string{"red", "green", "blue"}}

func TestEveryNameIsParsedAsItsValue(t *testing.T) {
	for i, name := range colours.List() {
		value, err := colours.Parse(name)
		require.NoError(t, err)
		assert.Equal(t, colour(i), value)
		assert.Equal(t, name, colours.Name(value))
	}
}

func TestAnUnknownNameIsAnErrorThatListsTheKnownOnes(t *testing.T) {
	for _, name := range []string{"", "Red", "red,green", " red"} {
		_, err := colours.Parse(name)
		assert.ErrorContains(t, err, "unknown colour \""+name+"\"; known are red, green, blue")
	}
}

func TestATableWithoutAValueKeepsTheOtherValues(t *testing.T) {
	some := colours.Without(1)
	assert.Equal(t, []string{"red", "blue"}, some.List())
	value, err := some.Parse("blue")
	require.NoError(t, err)
	assert.Equal(t, colour(2), value)
	for _, name := range []string{"green", ""} {
		_, err = some.Parse(name)
		assert.ErrorContains(t, err, "known are red, blue")
	}
	assert.Equal(t, []string{"red", "green", "blue"}, colours.List(), "the full table has changed")
}
