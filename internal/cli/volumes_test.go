package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/fsys"
)

func TestTheSummaryNamesTheVolumes(t *testing.T) {
	onVolumes(t, volumes{
		"raid": {fsys.Volume{Label: "RAID\u202e A", UUID: "1234-ABCD", FileSystem: "exfat", Source: "/dev/sdb1"}, 1_200_000_000_000},
		"mem":  {fsys.Volume{FileSystem: "tmpfs", Source: "tmpfs"}, -1},
	})
	run := func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		s := &engine.Summary{}
		for _, path := range o.Targets {
			s.Targets = append(s.Targets, engine.TargetSummary{Path: path})
		}
		return s, nil
	}
	r := command(t, run, "", "copy", "src", "raid", "-o", "mem", "-o", "unknown")
	require.Contains(t, r.stdout, `
to          'raid'
volume      $'RAID\342\200\256 A', exfat, /dev/sdb1, 1.20 TB free

to          'mem'
volume      tmpfs

to          'unknown'
`)
	require.NotContains(t, r.stderr, "raid", "the header is for terminals")

	r = command(t, run, "", "copy", "--json", "src", "raid", "-o", "mem")
	require.Contains(t, r.stdout, `"volume":{"label":"RAID\u202e A","uuid":"1234-ABCD","file_system":"exfat","device":"/dev/sdb1","available":1200000000000},`)
	require.Contains(t, r.stdout, `"volume":{"label":"","uuid":"","file_system":"tmpfs","device":"tmpfs","available":null},`)
}
