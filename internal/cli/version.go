package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the linker in a release:
// -ldflags "-X github.com/seed65876f4f/sealift/internal/cli.version=v1.2.3".
// Other builds use the build information that Go embeds.
var version string

// build identifies the program: version, commit and platform.
type build struct {
	Version  string    `json:"version"`
	Commit   string    `json:"commit,omitempty"`
	Time     time.Time `json:"time,omitzero"` // time of the commit
	Modified bool      `json:"modified,omitempty"`
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
}

func readBuild() build {
	info, _ := debug.ReadBuildInfo()
	return buildFrom(info, version)
}

// buildFrom returns the build of a program. linked, the version that the linker has set, takes
// precedence over the version in info. info may be nil.
func buildFrom(info *debug.BuildInfo, linked string) build {
	b := build{
		Version:  linked,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info != nil {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		b.Commit, b.Modified = settings["vcs.revision"], settings["vcs.modified"] == "true"
		b.Time, _ = time.Parse(time.RFC3339, settings["vcs.time"]) // zero means that the time is not known
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

func (b build) line() string { return "sealift " + b.Version }

func newVersionCmd(b build) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version and how the program was built",
		Example: "  sealift version\n  sealift version --json",
		Args:    exactly(),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout() // execute reports its errors
			if asJSON {
				printJSON(out, struct {
					Schema int `json:"schema"`
					build
				}{jsonSchema, b})
				return nil
			}
			fmt.Fprintln(out, b.line())
			if b.Commit != "" {
				modified := ""
				if b.Modified {
					modified = ", modified"
				}
				fmt.Fprintf(out, "commit %s of %s%s\n", b.Commit, b.Time.Format(time.DateOnly), modified)
			}
			fmt.Fprintf(out, "built with %s for %s\n", b.Go, b.Platform)
			return nil
		},
	}
	addGroups(cmd, []flagGroup{{groupOutput, func(s *pflag.FlagSet) {
		s.BoolVar(&asJSON, "json", false, "print one JSON object")
	}}})
	return cmd
}
