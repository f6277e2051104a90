//go:build linux

package main

import (
	"regexp"
	"strings"
	"testing"
)

// docsNumbers has numbers that a page takes from the code: the page, the words with the number, the file,
// and the text there. If one of the texts changes, the other one has to follow.
var docsNumbers = [][4]string{
	{"README.md", "Go 1.26 or later", "go.mod", "go 1.26"},
	{"docs/benchmarks.md", "The default is 32", "internal/usage/usage.go", "const DefaultWorkers = 32"},
	{"docs/design.md", "each at most twice", "internal/engine/entry.go", "const maxAttempts = 3"},
	{"docs/design.md", "16 MiB in memory", "internal/manifest/writer.go", "DefaultMemory = 16 << 20"},
	{"docs/design.md", "every 4 MiB", "internal/resume/in_flight.go", "MarkEvery = 4 << 20"},
	{"docs/design.md", "If these use 32 MiB", "internal/jobs/order.go", "const most = 32 << 20"},
	{"docs/design.md", "among the next 1,000", "internal/jobs/order.go", "const ahead = 1000"},
	{"docs/design.md", "up to four blocks ahead", "internal/compare/content.go", "readAhead = 4"},
	{"docs/design.md", "with 1 MiB of memory", "internal/mhl/dirhash.go", "const dirMemory = 1 << 20"},
	{"docs/design.md", "8 MiB at a time", "internal/pipe/offload.go", "const offloadStep = 8 << 20"},
	{"docs/design.md", "windows of 8 MiB", "internal/pipe/eviction.go", "evictWindow = 8 << 20"},
	{"docs/design.md", "after one second", "internal/engine/scan.go", "scanAfter = time.Second"},
	{"docs/design.md", "the granularity is 2 s", "internal/dest/filesystem.go", "coarsest = 2e9"},
	{"docs/design.md", "every 10 ms", "internal/timing/timing.go", "const interval = 10 * time.Millisecond"},
	{"docs/design.md", "fewer than 10 samples", "internal/timing/timing.go", "const leastSamples = 10"},
	{"docs/design.md", "than a twentieth of the time", "internal/verify/scrub.go", "saveShare = 20"},
	{"docs/formats.md", "more than 64 KiB", "internal/mhl/generation.go", "maxPath = 64 << 10"},
	{"docs/formats.md", "16 hashes of one file", "internal/mhl/generation.go", "maxDigests = 16"},
	{"docs/formats.md", "8 MiB together", "internal/mhl/generation.go", "maxKept = 8 << 20"},
	{"docs/formats.md", "nested 32 deep", "internal/mhl/safexml/safexml.go", "maxDepth = 32"},
	{"docs/formats.md", "may have 512 KiB", "internal/mhl/safexml/safexml.go", "maxToken = 512 << 10"},
	{"docs/formats.md", "at most 64 KiB long", "internal/bag/bag.go", "maxLine = 64 << 10"},
	{"docs/formats.md", "`bag-info.txt` 16 MiB", "internal/bag/bag.go", "maxInfo = 16 << 20"},
	{"docs/guarantees.md", "at most 16 files and directories", "internal/dest/sync_list.go", "const fewEntries = 16"},
	{"docs/guarantees.md", "longer than 16 MiB", "internal/resume/in_flight.go", "LeastPartial = 16 << 20"},
	{"docs/guarantees.md", "by its mode, 1700", "internal/fsys/unfinished_linux.go", "const unfinishedMode = 0o1700"},
	{"docs/guarantees.md", "is 1/32 of the time", "internal/resume/checkpoint.go", "partLost = 32"},
	{"docs/guarantees.md", "at least 0.25 s", "internal/resume/checkpoint.go", "leastInterval = 250 * time.Millisecond"},
	{"docs/guarantees.md", "at most 3 s", "internal/resume/checkpoint.go", "mostInterval = 3 * time.Second"},
	{"docs/guarantees.md", "at least 16 MiB", "internal/resume/checkpoint.go", "leastVolume = 16 << 20"},
	{"docs/guarantees.md", "at most 256 MiB", "internal/resume/checkpoint.go", "mostVolume = 256 << 20"},
	{"docs/guarantees.md", "more than 1/50 of the time", "internal/resume/checkpoint.go", "syncShare = 50"},
	{"docs/guarantees.md", "the first 10,000", "internal/incomplete/missing.go", "maxListed = 10_000"},
	{"docs/guarantees.md", "4 MiB to 1 GiB", "internal/pipe/device.go", "leastWindow = 4 << 20"},
	{"docs/guarantees.md", "4 MiB to 1 GiB", "internal/pipe/device.go", "largestWindow = 1 << 30"},
	{"docs/guarantees.md", "32 MiB at first", "internal/pipe/device.go", "firstWindow = 32 << 20"},
	{"docs/install.md", "Go 1.26 or later", "go.mod", "go 1.26"},
	{"docs/manifest.md", "at most 2,098,176 bytes", "internal/manifest/reader.go", "const MaxLine = 2<<20 + 1<<10"},
	{"docs/metrics.md", "the mode 0644", "internal/cli/metrics.go", "Mode: 0o644"},
	{"docs/plan-format.md", "size / 500 MB/s", "internal/shard/balance.go", "bandwidth = 500e6"},
	{"docs/plan-format.md", "+ 1 ms", "internal/shard/balance.go", "entryCost = 1e6"},
	{"docs/plan-format.md", "1/20 of the mean", "internal/shard/balance.go", "finest = 20"},
	{"docs/plan-format.md", "32 MiB in memory", "internal/shard/sorter.go", "sortMemory = 32 << 20"},
	{"docs/platforms.md", "six attempts in 0.3 s", "internal/fsys/nt_windows.go", "releaseTries = 6"},
	{"docs/platforms.md", "six attempts in 0.3 s", "internal/fsys/nt_windows.go", "releaseWait = 10 * time.Millisecond"},
	{"docs/platforms.md", "Go 1.26", "go.mod", "go 1.26"},
	{"docs/releasing.md", "1.05 of its former time", "scripts/bench", "SLOWEST = 1.05"},
	{"docs/report.md", "runs of three seconds and more", "internal/report/samples.go", "leastSpells = 3"},
	{"docs/report.md", "up to 50,000 entries", "internal/report/files.go", "maxFiles = 50_000"},
	{"docs/report.md", "longer than 150 bytes", "internal/report/files.go", "maxFileBytes = 15 << 20"},
	{"docs/report.md", "At most 10,000 paths", "internal/report/problems.go", "maxProblemPaths = 10_000"},
	{"docs/report.md", "at most 100", "internal/report/shards.go", "const maxShards = 100"},
	{"docs/scaling.md", "about half an hour", "internal/shard/balance.go", "shardCost = 30 * 60 * 1e9"},
	{"docs/scaling.md", "at most 1,000", "internal/shard/balance.go", "usualShards = 1000"},
	{"docs/scaling.md", "four times the estimate", "internal/submit/submit.go", "timeFactor = 4"},
	{"docs/scaling.md", "and ten minutes", "internal/submit/submit.go", "timeExtra = 10 * time.Minute"},
	{"docs/scaling.md", "Two minutes before the limit", "internal/submit/slurm.sh.tmpl", "--signal=B:TERM@120"},
	{"docs/scaling.md", "tried again three times", "internal/submit/kubernetes.yaml.tmpl", "backoffLimitPerIndex: 3"},
	{"docs/scaling.md", "1001 by default", "internal/submit/submit.go", "const maxArray = 1001"},
	{"docs/scaling.md", "after two minutes", "internal/shard/attempt.go", "const DefaultPatience = 2 * time.Minute"},
	{"docs/scripting.md", "at least half a second", "cmd/sealift/main.go", "const oneRequest = 500 * time.Millisecond"},
	{"docs/scripting.md", "every ten seconds", "internal/progress/progress.go", "plainInterval = 10 * time.Second"},
	{"docs/scripting.md", "each second", "internal/progress/progress.go", "jsonInterval = time.Second"},
	{"docs/scrubbing.md", "half of that age", "internal/verify/scrub.go", "s.opts.MaxAge/2"},
	{"docs/scrubbing.md", "every minute", "internal/verify/scrub.go", "saveEvery = time.Minute"},
	{"docs/stream.md", "`--block-size` (128K)", "internal/stream/options.go", "DefaultBlockSize = 128 << 10"},
	{"docs/stream.md", "buffers of 512 KiB", "internal/stream/stream.go", "unitSize = 512 << 10"},
	{"docs/stream.md", "steps of 4096 and 512 bytes", "internal/stream/read.go", "pageStep = 4096"},
	{"docs/stream.md", "steps of 4096 and 512 bytes", "internal/stream/read.go", "sectorStep = 512"},
}

// TestDocsNumbers compares numbers of the pages with those of the code.
func TestDocsNumbers(t *testing.T) {
	text := func(name string) string { return strings.Join(strings.Fields(string(readSource(t, name))), " ") }
	for _, n := range docsNumbers {
		if !strings.Contains(text(n[0]), n[1]) {
			t.Errorf("%s does not have %q; %s has %q", n[0], n[1], n[2], n[3])
		}
		if !strings.Contains(text(n[2]), n[3]) {
			t.Errorf("%s does not have %q; %s has %q", n[2], n[3], n[0], n[1])
		}
	}
}

// TestBenchmarksHaveCommands checks that each table of the benchmarks answers a separate question, and that
// the section names the command that measured it.
func TestBenchmarksHaveCommands(t *testing.T) {
	page := string(readSource(t, "docs/benchmarks.md"))
	_, results, found := strings.Cut(page, "\n## How ")
	if !found {
		t.Fatal("there is no question")
	}
	table := regexp.MustCompile(`(?m)^\|[-|]+\|$`)
	command := regexp.MustCompile("`([A-Z_]+=\\S+ )?(scripts/|sealift |go test |/usr/bin/time )[^`]+`")
	for _, section := range regexp.MustCompile(`(?m)^##+ `).Split(results, -1) {
		title, _, _ := strings.Cut(section, "\n")
		if n := len(table.FindAllString(section, -1)); n > 1 {
			t.Errorf("%s: %d tables", title, n)
		} else if n == 1 && !command.MatchString(section) {
			t.Errorf("%s: there is no command", title)
		}
	}
}
