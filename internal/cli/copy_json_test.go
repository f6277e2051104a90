package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/internal/counters"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
)

func TestJSONOfCopyHasEveryField(t *testing.T) {
	r := command(t, eventful, "", "copy", "--json", "src", "dst", "-o", "dst2")
	const want = `{
  "schema": 1,
  "source": {
    "path": "src"
  },
  "dry_run": false,
  "verdict": "not_complete",
  "causes": [
    {
      "cause": "lost",
      "destination": "dst2"
    }
  ],
  "next": "reconnect 'dst2', check that it is mounted, then run the same command again",
  "counts": {
    "created": 20001,
    "replaced": 16,
    "metadata_updated": 2,
    "up_to_date": 1232,
    "kept": 5,
    "files": 20001,
    "directories": 1,
    "links": 12,
    "hard_links": 3,
    "specials": 1,
    "skipped": 1234,
    "conflicts": 2,
    "mismatches": 1,
    "errors": 3,
    "warnings": 1,
    "left_out": 0
  },
  "bytes": 27123456789,
  "seconds": 20.5,
  "rate": 1323095453,
  "read_back_rate": null,
  "resumed_files": 1234,
  "resumed_bytes": 5601000000,
  "destinations": [
    {
      "path": "dst",
      "verdict": "not_complete",
      "volume": {
        "label": "",
        "uuid": "",
        "file_system": "",
        "device": "",
        "available": null
      },
      "counts": {
        "created": 20001,
        "replaced": 16,
        "metadata_updated": 2,
        "up_to_date": 1232,
        "kept": 5
      },
      "files": 20000,
      "bytes": 27123000000,
      "resumed_files": 1234,
      "resumed_bytes": 5601000000,
      "present": 21235,
      "ignored": 0,
      "verified": 20000,
      "verified_through_cache": 12,
      "conflicts": 2,
      "failures": 1,
      "missing": 3,
      "partial_files": 0,
      "partial_bytes": 0,
      "dropped": null,
      "rate": null,
      "read_back_rate": null,
      "manifests": [
        {
          "path": "dst/SHA256SUMS",
          "algorithm": "sha256",
          "lines": 20001,
          "dropped": 0,
          "sha256": "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
        }
      ],
      "generations": [],
      "backup": null
    },
    {
      "path": "dst2",
      "verdict": "not_complete",
      "volume": {
        "label": "",
        "uuid": "",
        "file_system": "",
        "device": "",
        "available": null
      },
      "counts": {
        "created": 0,
        "replaced": 0,
        "metadata_updated": 0,
        "up_to_date": 0,
        "kept": 0
      },
      "files": 0,
      "bytes": 0,
      "resumed_files": 0,
      "resumed_bytes": 0,
      "present": 1232,
      "ignored": 0,
      "verified": 0,
      "verified_through_cache": 0,
      "conflicts": 0,
      "failures": 1,
      "missing": 20007,
      "partial_files": 2,
      "partial_bytes": 80000000,
      "dropped": "no space left on device",
      "rate": null,
      "read_back_rate": null,
      "manifests": [],
      "generations": [],
      "backup": null
    }
  ],
  "limit": {
    "place": "destination",
    "destination": "dst",
    "share": 0.917
  },
  "reserved": {
    "count": 0,
    "paths": []
  },
  "conflicts": [
    {
      "path": "newer",
      "destination": "dst",
      "error": "the destination is newer",
      "hint": "always"
    },
    {
      "path": "file",
      "destination": "dst",
      "error": "a directory is in the way"
    }
  ],
  "failures": [
    {
      "path": "bad\ufffd",
      "path_base64": "YmFk/w==",
      "destination": "",
      "event": "failed",
      "stage": "read",
      "error": "input/output error"
    },
    {
      "path": "it's",
      "destination": "dst",
      "event": "failed",
      "stage": "write",
      "error": "file too large"
    },
    {
      "path": "rotten",
      "destination": "",
      "event": "mismatch",
      "stage": "check",
      "error": "source does not match its manifest"
    },
    {
      "path": "a b",
      "destination": "dst2",
      "event": "destination_dropped",
      "stage": "destination",
      "error": "no space left on device"
    }
  ],
  "warnings": [
    {
      "path": "",
      "destination": "dst",
      "error": "no \u202eACLs here"
    }
  ],
  "exit_code": 3
}
`
	requireIndented(t, want, r.stdout)
	if strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("not one line: %q", r.stdout)
	}
	for _, b := range []byte(r.stdout) {
		if b >= 0x7f || b < ' ' && b != '\n' {
			t.Errorf("byte %#x in the output", b)
		}
	}
}

func TestJSONListsAreNeverNull(t *testing.T) {
	r := command(t, succeeds, "", "copy", "--json", "a", "b")
	if strings.Contains(strings.NewReplacer(`"limit":null`, "", `"next":null`, "", `"read_back_rate":null`, "").Replace(r.stdout), "null") || !strings.Contains(r.stdout, `"destinations":[]`) {
		t.Errorf("stdout %s", r.stdout)
	}
}

// The number of errors is the length of the list, for errors of the engine and of the command.
func TestTheCountOfErrorsIsTheLengthOfTheList(t *testing.T) {
	manifest := func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		o.Report(event.Event{Kind: event.Failed, Target: "b", Err: &failure.FileError{Target: "b", Stage: failure.StageManifest, Err: errors.New("no")}})
		return &engine.Summary{Totals: engine.Totals{Errors: 1}}, nil
	}
	lost := func(_ context.Context, o *engine.Options, _ *counters.Set) (*engine.Summary, error) {
		o.Report(event.Event{Kind: event.DestinationLost, Target: "b", Err: errors.New("gone")})
		return &engine.Summary{Totals: engine.Totals{Errors: 1}}, nil
	}
	breaks := func(context.Context, *engine.Options, *counters.Set) (*engine.Summary, error) {
		return nil, errors.New("broken")
	}
	for name, c := range map[string]struct {
		run   runCopy
		flags string
		want  int
	}{
		"manifest":    {manifest, "", 1},
		"destination": {lost, "", 1},
		"run":         {breaks, "", 1},
		"log":         {lost, "--log-file=/dev/full", 2},
	} {
		if _, err := os.Stat("/dev/full"); name == "log" && err != nil {
			continue
		}
		r := command(t, c.run, "", append(strings.Fields("copy --json "+c.flags), "a", "b")...)
		var report struct {
			Counts   struct{ Errors int }
			Failures []any
		}
		if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
			t.Fatal(err)
		}
		if report.Counts.Errors != c.want || len(report.Failures) != c.want || r.code != 1 {
			t.Errorf("%s: exit code %d, %s", name, r.code, r.stdout)
		}
		r = command(t, c.run, "", append(strings.Fields("copy "+c.flags), "a", "b")...)
		if want := fmt.Sprintf("\nerrors      %d\n", c.want); !strings.Contains(r.stdout, want) {
			t.Errorf("%s: the summary lacks %q:\n%s", name, want, r.stdout)
		}
	}
}

func TestASCIIJSONMeansTheSame(t *testing.T) {
	want := map[string]string{"a\u007fb": "é\u009b\u202e\U0001f40b\"\\\n<&>"}
	var buf bytes.Buffer
	printJSON(&buf, want)
	var got map[string]string
	if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["a\u007fb"] != want["a\u007fb"] {
		t.Errorf("%q came back as %q", want, got)
	}
}
