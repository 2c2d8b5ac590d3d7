//go:build look

// Package looktest shows pages in a browser and checks them with axe-core. It is for tests that only `make look`
// runs.
package looktest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	lookInto = flag.String("look", "", "folder that TestLook fills with pages, and with what Chromium shows and prints of them")
	axe      = flag.String("axe", "", "axe.min.js of axe-core, which TestLook has judge the pages")
)

// Folder returns the folder for screenshots.
func Folder(t *testing.T) string {
	t.Helper()
	if *lookInto == "" {
		t.Fatal("-look names no folder: `make look` does")
	}
	dir, err := filepath.Abs(*lookInto)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// tell reports what axe-core found. Only serious and critical violations fail the test.
func tell(t *testing.T, found []violation) {
	t.Helper()
	for _, v := range found {
		text := fmt.Sprintf("%s (%s): %s, %d times, such as %.300s", v.ID, v.Impact, v.Help, len(v.Nodes), v.Nodes[0].HTML)
		if v.Impact == "serious" || v.Impact == "critical" {
			t.Error(text)
		} else {
			t.Log(text)
		}
	}
}

// Print prints a page as PDF with Chromium.
func Print(t *testing.T, url, into string) {
	t.Helper()
	command := exec.CommandContext(
		t.Context(), program(), "--headless", "--no-sandbox", "--disable-gpu", "--print-to-pdf="+into,
		"--no-pdf-header-footer", url,
	)
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, said)
	}
}

// program returns the name of the Chromium to start.
func program() string { return cmp.Or(os.Getenv("CHROMIUM"), "chromium") }
