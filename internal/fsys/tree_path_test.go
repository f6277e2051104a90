package fsys

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIsTreePath(t *testing.T) {
	for _, path := range []string{"a", "a/b", "...", "a/..b", `a\..\b`, " ", "a\nb", "\xff"} {
		assert.True(t, IsTreePath(path), "%q", path)
	}
	for _, path := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "./a", "a/./b", "a\x00b"} {
		assert.False(t, IsTreePath(path), "%q", path)
	}
}
