package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestZZLook(t *testing.T) {
	file := os.Getenv("PAGE")
	b := newBrowser(t)
	b.open(file)
	b.look("light", 1200, "light")
	b.look("dark", 1200, "dark")
	b.look("narrow", 400, "light")
	b.print("a4", 8.27, 11.69)
	require.Empty(t, b.complaints(file))
	axe, _ := os.ReadFile("/tmp/w/axe/node_modules/axe-core/axe.min.js")
	b.eval(string(axe) + ";0")
	t.Log(b.eval(`axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.impact, v.nodes.length, v.nodes[0].html])))`))
}
