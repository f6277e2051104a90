package cli

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/fsys/faultfs"
	"github.com/seed65876f4f/sealift/internal/treetest"
	"github.com/seed65876f4f/sealift/internal/units"
)

// Each number on a screen is compared with the result of another program, or with a clock.

// measure returns the bytes and the number of the files below some directories, without
// Sealift's own, as find and du count them.
func measure(t *testing.T, dirs ...string) (bytes, files int64) {
	t.Helper()
	find := "find " + strings.Join(dirs, " ") + " -type f ! -name SHA256SUMS ! -path '*/.sealift-*'"
	number := func(script string) int64 {
		out, err := exec.Command("sh", "-c", script).Output()
		require.NoError(t, err, script)
		n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		require.NoError(t, err, script)
		return n
	}
	return number(find + " -print0 | du -bc --files0-from=- | tail -n 1 | cut -f 1"), number(find + " | wc -l")
}

// shown is text that the view, or one of its lines, must contain.
func shown(doneBytes, totalBytes, doneFiles, totalFiles int64) string {
	return fmt.Sprintf(`\b%s/%s +%d/%d files`, units.Size(doneBytes), units.Size(totalBytes), doneFiles, totalFiles)
}

func TestTotalsOnTheScreenAreThoseOfDuAndFind(t *testing.T) {
	if out, err := exec.Command("du", "--version").Output(); err != nil || !strings.Contains(string(out), "GNU") {
		t.Skip("there is no GNU du")
	}
	const large, block = "A001_0001.mov", int64(128 << 10)
	tree := card()
	tree["card"].(treetest.Dir)["more"] = func() treetest.Node {
		dir := treetest.Dir{"empty": treetest.File(""), "none": treetest.Dir{}, "link": treetest.Symlink("empty")}
		for i := range 150 {
			dir[fmt.Sprint(i)] = treetest.File(strings.Repeat("x", i*37))
		}
		return dir
	}()
	enter(t, tree)
	bytes, files := measure(t, "card")
	largeBytes, _ := measure(t, "card/"+large)
	held := bytes - largeBytes + 23*block // all but the rest of the large file

	g, back := newGate(), newGate()
	defer g.open()
	defer back.open()
	sys := &fsys.FS{Fault: faultfs.All(g.holds(fsys.OpRead, "card/"+large, 23), back.holds(fsys.OpRead, "disk2/"+large, 23))}
	s := begin(t, 80, 40, sys, "copy --verify --workers 2 card disk1 -o disk2")
	s.await(shown(held, bytes, files-1, files))
	there, done := measure(t, "disk1")
	require.Equal(t, []int64{held - 23*block, files - 1}, []int64{there, done}, "files that are complete at a destination")
	g.open()
	s.await(shown(bytes+held, 2*bytes, 2*files-1, 2*files))
	s.await(fmt.Sprintf(`'disk1' .* %s/%s verified`, units.Size(bytes), units.Size(bytes)))
	s.await(fmt.Sprintf(`'disk2' .* %s/%s verified`, units.Size(held), units.Size(bytes)))
	back.open()
	s.end(0)
	summary := strings.Join(s.Lines(), "\n")
	for _, disk := range []string{"disk1", "disk2"} {
		onDisk, n := measure(t, disk)
		require.Equal(t, []int64{bytes, files}, []int64{onDisk, n})
	}
	require.Regexp(t, fmt.Sprintf(`complete: %d files at 2 destinations`, files), summary)
	require.Regexp(t, fmt.Sprintf(`copied +%d files`, files), summary)
	require.Regexp(t, `size +`+units.Size(bytes)+` in`, summary)
	require.Regexp(t, fmt.Sprintf(`verified +%d files`, files), summary)

	for name, line := range map[string]string{
		"verify":  "verify --workers 2 disk1",
		"compare": "compare --workers 2 --cache keep disk1 disk2",
	} {
		g := newGate()
		defer g.open()
		s := begin(t, 80, 40, &fsys.FS{Fault: g.holds(fsys.OpRead, "disk1/"+large, 23)}, line)
		n, of := files-1, files
		wantBytes, total := held, bytes
		if name == "compare" { // A has its manifest, which is counted, but not compared
			manifest := measureFile(t, "disk1/SHA256SUMS")
			n, of, wantBytes, total = n+1, of+1, wantBytes+manifest, total+manifest
		}
		s.await(shown(wantBytes, total, n, of))
		g.open()
		s.end(0)
		require.Regexp(t, fmt.Sprintf(`(checked|compared) +%d files`, files), strings.Join(s.Lines(), "\n"))
	}
}

// measureFile returns the bytes of a file as du counts them.
func measureFile(t *testing.T, path string) (bytes int64) {
	t.Helper()
	out, err := exec.Command("du", "-b", path).Output()
	require.NoError(t, err)
	bytes, err = strconv.ParseInt(strings.Fields(string(out))[0], 10, 64)
	require.NoError(t, err)
	return bytes
}

// The source is read at 4 MB/s. Rates and times on the screen are compared with the bytes that it
// shows and a clock.
func TestRatesOnTheScreenAreThoseOfAClock(t *testing.T) {
	enter(t, treetest.Dir{"card": treetest.Dir{"A001_0001.mov": treetest.File(string(treetest.Pattern(28_000_000, 1)))}})
	begun := time.Now()
	s := begin(t, 80, 24, nil, "copy --bwlimit 4MB --progress bar card disk1")
	view := regexp.MustCompile(`ETA +([0-9:]+)\n *([0-9.]+) MB/28.0 MB .* ([0-9.]+) MB/s  avg +([0-9.]+) MB/s`)
	type frame struct {
		at                   time.Time
		left                 time.Duration
		bytes, rate, average float64
	}
	look := func() frame {
		m := view.FindStringSubmatch(s.await(view.String()))
		number := func(i int) float64 {
			n, err := strconv.ParseFloat(m[i], 64)
			require.NoError(t, err)
			return n
		}
		left, err := time.ParseDuration(strings.Replace(m[1], ":", "m", 1) + "s")
		require.NoError(t, err)
		return frame{time.Now(), left, number(2), number(3), number(4)}
	}
	time.Sleep(1500 * time.Millisecond)
	first := look()
	time.Sleep(3 * time.Second) // the length of the rate window
	second := look()
	measured := (second.bytes - first.bytes) / second.at.Sub(first.at).Seconds()
	require.InEpsilon(t, 4, measured, 0.2, "MB/s by the bytes on the screen")
	require.InEpsilon(t, measured, second.rate, 0.2)
	require.InEpsilon(t, second.bytes/second.at.Sub(begun).Seconds(), second.average, 0.2)
	s.end(0)
	took := time.Since(second.at)
	require.InDelta(t, took.Seconds(), second.left.Seconds(), 1.5, "the time left that was shown")
	m := regexp.MustCompile(`size +28.0 MB in ([0-9.]+) s, ([0-9.]+) MB/s`).FindStringSubmatch(strings.Join(s.Lines(), "\n"))
	require.NotNil(t, m, "%q", s.Lines())
	seconds, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	rate, err := strconv.ParseFloat(m[2], 64)
	require.NoError(t, err)
	total := time.Since(begun).Seconds()
	require.InEpsilon(t, total, seconds, 0.1)
	require.InEpsilon(t, 28/total, rate, 0.1)
}
