package cli

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSizesInEachUnit(t *testing.T) {
	for _, c := range []struct {
		unit  string
		bytes uint64
		want  string
	}{
		{"1K", 0, "0"},
		{"1K", 1, "1"},
		{"1K", 1024, "1"},
		{"1K", 1025, "2"},
		{"1", 731, "731"},
		{"3", 10, "4"},
		{"M", 1<<20 + 1, "2M"},
		{"MiB", 1 << 20, "1MiB"},
		{"MB", 1, "1MB"},
		{"KB", 1001, "2kB"},
		{"kB", 1001, "2kB"},
		{"KiB", 1, "1KiB"},
		{"kiB", 1, "1KiB"},
		{"k", 1, "1K"},
		{"E", math.MaxInt64, "8E"},
		{"1.5K", 1537, "2"},
		{"human-readable", 0, "0"},
		{"human-readable", 1023, "1023"},
		{"human-readable", 4096, "4.0K"},
		{"human-readable", 1025, "1.1K"},
		{"human-readable", 99 << 10 / 10, "9.9K"},
		{"human-readable", 99<<10/10 + 1, "10K"},
		{"human-readable", 12 << 10, "12K"},
		{"human-readable", 3 << 19, "1.5M"},
		{"human-readable", 1023<<10 + 1, "1.0M"},
		{"human-readable", math.MaxInt64, "8.0E"},
		{"si", 999, "999"},
		{"si", 1000, "1.0k"},
		{"si", 999_001, "1.0M"},
		{"si", math.MaxInt64, "9.3E"},
	} {
		u, err := parseUnit(c.unit)
		if err != nil {
			t.Errorf("%s: %v", c.unit, err)
		} else if got := u.format(c.bytes); got != c.want {
			t.Errorf("%d in units of %s is %s, want %s", c.bytes, c.unit, got, c.want)
		}
	}
	for s, want := range map[string]string{
		"":     `"" is neither a size`,
		"B":    `"B" is neither a size`,
		"0":    "0 cannot be a unit; it must be at least 1",
		"0M":   "0M cannot be a unit",
		"X":    `"X" is neither a size, such as 4096 or 1M, nor a unit, such as K, MiB, GB, human-readable or si`,
		"'1":   `"'1" is neither a size`,
		"-1":   `"-1" is neither a size`,
		"Z":    `"Z" is neither a size`,
		"1b":   `"1b" is not a size`,
		"16E":  `"16E" is more than 64 bits can count`,
		"sigh": `"sigh" is neither a size`,
	} {
		if _, err := parseUnit(s); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("parseUnit(%q): error %v, want %s", s, err, want)
		}
	}
}

// TestUnitsAgainstGNU compares sizes with those that GNU du prints for sparse files.
func TestUnitsAgainstGNU(t *testing.T) {
	du, err := exec.LookPath("du")
	if err != nil {
		t.Skip("du is not installed: there is nothing to compare with")
	}
	if out, err := exec.Command(du, "--version").Output(); err != nil || !strings.Contains(string(out), "GNU") {
		t.Skip("du is not GNU's")
	}
	sizes := []int64{0, 1, 2, 3, 511, 512, 513, 998, 999, 1000, 1001, 1023, 1024, 1025, 9949, 9950, 9951, 9999, 10_000,
		99<<10/10 - 1, 99 << 10 / 10, 99<<10/10 + 1, 10<<10 - 1, 10 << 10, 10<<10 + 1, 99_001, 100_000, 123_456_789,
		math.MaxInt32, math.MaxInt64 / 10, math.MaxInt64 - 1, math.MaxInt64}
	for _, base := range []int64{1000, 1024} {
		for size, power := base, 1; power <= 6; size, power = size*base, power+1 {
			if power < 6 {
				sizes = append(sizes, size*base-1, size*base, size*base+1, size*base-size, size*base-size+1, size*base-size/2)
			}
			sizes = append(sizes, size-1, size, size+1, size+size/10, size+size/10+1, size/10*79)
		}
	}
	dir, files := longFiles(t, sizes)
	for _, name := range []string{"1K", "1", "2", "3", "7", "512", "1000", "1023", "1M", "1MB", "10KiB", "1G", "7E", "9223372036854775807",
		"K", "k", "M", "G", "T", "P", "E", "KB", "kB", "MB", "GB", "TB", "PB", "EB", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB",
		"human-readable", "si"} {
		u, err := parseUnit(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cmd := exec.Command(du, append([]string{"--apparent-size", "--block-size=" + name, "--"}, files...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want strings.Builder
		for _, file := range files {
			var size uint64
			if _, err := fmt.Sscan(file, &size); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&want, "%s\t%s\n", u.format(size), file)
		}
		if string(out) != want.String() {
			t.Errorf("units of %s:\n%s", name, differences(want.String(), string(out)))
		}
	}
}

// longFiles makes a sparse file of each size, named after its size, on a file system that allows
// the largest one.
func longFiles(t *testing.T, sizes []int64) (dir string, files []string) {
	dirs := []string{t.TempDir()}
	if shm, err := os.MkdirTemp("/dev/shm", "sealift"); err == nil {
		t.Cleanup(func() { os.RemoveAll(shm) })
		dirs = append(dirs, shm)
	}
	for _, dir = range dirs {
		files = nil
		var refused error
		seen := map[int64]bool{}
		for _, size := range sizes {
			if seen[size] {
				continue
			}
			seen[size] = true
			name := fmt.Sprint(size)
			f, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(size); err != nil {
				refused = err
			} else {
				files = append(files, name)
			}
			f.Close()
		}
		if refused == nil {
			return dir, files
		}
		t.Logf("not all sizes are possible: %v", refused)
	}
	return dir, files
}

// differences lists the lines in which two texts with the same number of lines differ.
func differences(got, want string) string {
	var sb strings.Builder
	wanted := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wanted) || line != wanted[i] {
			fmt.Fprintf(&sb, "got  %q\n", line)
			if i < len(wanted) {
				fmt.Fprintf(&sb, "want %q\n", wanted[i])
			}
		}
	}
	return sb.String()
}

func FuzzParseUnit(f *testing.F) {
	for _, s := range []string{"1K", "K", "kB", "MiB", "si", "human-readable", "0", "8E", "B", "1.5G", "\xffB"} {
		f.Add(s, uint64(1025))
	}
	f.Fuzz(func(t *testing.T, s string, bytes uint64) {
		u, err := parseUnit(s)
		if err != nil {
			return
		}
		if u.base == 0 && u.size == 0 || bytes > 0 && u.format(bytes)[0] == '0' {
			t.Errorf("%d in units of %q is %s", bytes, s, u.format(bytes))
		}
	})
}
