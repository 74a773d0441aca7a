package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build tells which build this is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion prefers what the linker was told over what the go command
// found out.
func buildVersion() build {
	b := build{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "(devel)" {
			b.Version = cmp.Or(b.Version, info.Main.Version)
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = cmp.Or(b.Commit, s.Value)
			}
		}
	}
	b.Version, b.Commit = cmp.Or(b.Version, "dev"), cmp.Or(b.Commit, "unknown")
	return b
}

func newVersionCmd(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit and Go version",
		Example: "  sidecar version -o json",
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			b := buildVersion()
			if e.output == outputJSON {
				return e.printJSON(b)
			}
			return e.print(fmt.Sprintf("sidecar %s (commit %s, %s, %s)\n", b.Version, b.Commit, b.Go, b.Platform))
		},
	}
}
