package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFlagsForAFolder: --pairs, --top and --budget ask for what the keys of an evaluation file do.
func TestFlagsForAFolder(t *testing.T) {
	t.Parallel()
	documents := map[string]string{"a.md": "Alpha.", "b.md": "Beta.", "c.md": "Gamma.", "d.md": "Delta."}
	prices := folder(t, map[string]string{"fleet.yaml": "prices: {\"simulator:*\": {input: 1, output: 1}}\n"})
	fleet, err := LoadFleet(filepath.Join(prices, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, documents)
	for _, c := range []struct {
		name  string
		flags Compare
		keys  string
	}{
		{"pairs", Compare{Pairs: "sample:0.5"}, "pairwise: {pairs: sample:0.5}\n"},
		{"swiss", Compare{Pairs: "swiss"}, "pairwise: {pairs: swiss}\n"},
		{"top", Compare{Top: 2}, "pairwise: {pairs: sample:1}\nuntil: {top: 2}\n"},
		{"top and pairs", Compare{Top: 1, Pairs: "sample:0.9"}, "pairwise: {pairs: sample:0.9}\nuntil: {}\n"},
		{"budget", Compare{Budget: "$2.50"}, "pairwise: {}\nbudget: {usd: 2.5}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := loadFolder(dir, []string{"simulator:careful"}, Options{Fleet: fleet, Compare: c.flags})
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{"eval.yaml": "name: " + filepath.Base(dir) + "\ndocuments: [\"*.md\"]\njudges: [simulator:careful]\n" + c.keys}
			for name, text := range documents {
				files[name] = text
			}
			same := load(t, files, Options{Fleet: fleet})
			if diff := cmp.Diff(same.Evaluation, s.Evaluation); diff != "" {
				t.Errorf("evaluation (-file +flags):\n%s", diff)
			}
			if diff := cmp.Diff(same.Settings, s.Settings); diff != "" {
				t.Errorf("settings (-file +flags):\n%s", diff)
			}
		})
	}
}

func TestWrongFlagsForAFolder(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a.md": "Alpha.", "b.md": "Beta.", "eval.yaml": minimal})
	for _, c := range []struct {
		name  string
		in    Input
		flags Compare
		want  string
	}{
		{"share", Input{Path: dir, Folder: true}, Compare{Pairs: "sample:2"}, "--pairs: "},
		{"unknown pairs", Input{Path: dir, Folder: true}, Compare{Pairs: "some"}, "--pairs: "},
		{"no YAML", Input{Path: dir, Folder: true}, Compare{Pairs: "{baseline"}, "--pairs:"},
		{"unknown baseline", Input{Path: dir, Folder: true}, Compare{Pairs: "{baseline: zed.md}"}, "zed.md has no document"},
		{"a fixed plan", Input{Path: dir, Folder: true}, Compare{Top: 1, Pairs: "swiss"}, "--top: until needs pairs in random order"},
		{"nobody", Input{Path: dir, Folder: true}, Compare{Top: -1}, "--top: got -1; want 1 or more"},
		{"no money", Input{Path: dir, Folder: true}, Compare{Budget: "0"}, "--budget: got 0; want US dollars above 0, such as 5"},
		{"not a number", Input{Path: dir, Folder: true}, Compare{Budget: "NaN"}, "--budget: got "},
		{"a file", InputAt(filepath.Join(dir, "eval.yaml")), Compare{Budget: "5"}, "--budget: the flag applies to folders and files of answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			judges := []string{"simulator:careful"}
			if !c.in.Folder {
				judges = nil
			}
			_, err := c.in.Load(judges, Options{Compare: c.flags})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
