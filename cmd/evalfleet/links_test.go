package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	linkIn     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingIn  = regexp.MustCompile(`(?m)^#{1,6} +(.*?)\s*$`)
	codeBlocks = regexp.MustCompile("(?ms)^```.*?^```$")
)

// Every link of the README, the changelog and the pages in docs leads to a file that is
// there, and to a heading of it where it names one.
func TestLinksOfTheDocs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := func(path string) string {
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return codeBlocks.ReplaceAllString(string(all), "")
	}
	followed := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md")) {
		for _, m := range linkIn.FindAllStringSubmatch(text(page), -1) {
			path, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			followed++
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", filepath.Base(page), m[1])
				continue
			}
			if heading != "" && !anchors(text(target))[heading] {
				t.Errorf("%s: %s: that page has no such heading", filepath.Base(page), m[1])
			}
		}
	}
	if followed < 100 {
		t.Errorf("%d links followed, want those of all pages", followed)
	}
}

// anchors are the names under which GitHub makes a page's headings known: in lower
// case, spaces as dashes, without punctuation.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headingIn.FindAllStringSubmatch(page, -1) {
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return all
}
