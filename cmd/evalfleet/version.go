package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func versionCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "Print the version, commit and Go version",
		Description: "Prints one line with the version, the commit and the Go version of the build.",
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			_, err := fmt.Fprintln(p.stdout, "evalfleet "+ownVersion())
			return err
		},
	}
}

// stamp is the version that the linker wrote into a program that is built without its git repository, as an image is
// (deploy/Dockerfile).
var stamp string

// ownVersion returns the version of this program.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return version(info, stamp)
}

// version formats the version of a build, or the stamp if the build recorded none: "v1.2.3, commit 0123456789ab (changed since), go1.26.0".
func version(info *debug.BuildInfo, stamp string) string {
	release := info.Main.Version
	if release == "" || release == "(devel)" {
		release = cmp.Or(stamp, "development build")
	}
	commit, changed := "", false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}

	text := release
	if commit != "" {
		text += fmt.Sprintf(", commit %.12s", commit)
		if changed {
			text += " (changed since)"
		}
	}

	if info.GoVersion != "" {
		text += ", " + info.GoVersion
	}
	return text
}
