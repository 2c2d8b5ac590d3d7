package promptforge

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval"
)

// oneRun asks openai:gpt-5-mini about one input, under the given id.
func oneRun(id, fileB string) *eval.Runs {
	return &eval.Runs{
		Models: []eval.Judge{{Provider: "openai", Model: "gpt-5-mini"}},
		Files:  []eval.Document{{ID: "prompts/standard_prompt.txt"}, {ID: fileB}},
		List:   []eval.FileRun{{ID: id, Model: 0, FileA: 0, FileB: 1}},
	}
}

func TestNameOfAnAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pattern, id, fileB string
		want               string
	}{
		"default":                       {"", "r1", "input/sample_utf8.txt", "sample_utf8.gpt-5-mini.r1.fpf.response.md"},
		"every placeholder":             {"<provider>/<file_a_stem>-<file_b_stem>-<model_name>-<run_id>", "r1", "b.md", "openai/standard_prompt-b-gpt-5-mini-r1"},
		"one twice":                     {"<run_id>/<run_id>.md", "r1", "b.md", "r1/r1.md"},
		"without":                       {"out/answer.md", "r1", "b.md", "out/answer.md"},
		"an unknown one":                {"<run>.md", "r1", "b.md", "<run>.md"},
		"dollars and braces":            {"$HOME/{run_id}/<run_id>.md", "r1", "b.md", "$HOME/{run_id}/r1.md"},
		"only the last ending goes":     {"<file_b_stem>", "r1", "in/a.tar.gz", "a.tar"},
		"nothing but an ending":         {"<file_b_stem>", "r1", "in/.env", ".env"},
		"a Windows path":                {"<file_b_stem>", "r1", `C:\in\a.txt`, "a"},
		"a placeholder as value":        {"<run_id>.md", "<model_name>", "b.md", "_model_name_.md"},
		"slashes":                       {"out/<run_id>.md", "../../etc/passwd", "b.md", "out/.._.._etc_passwd.md"},
		"backslashes":                   {"<run_id>.md", `..\x`, "b.md", ".._x.md"},
		"parent folder":                 {"<run_id>/x.md", "..", "b.md", "__/x.md"},
		"own folder":                    {"<run_id>/x.md", ".", "b.md", "_/x.md"},
		"two that make a parent":        {".<run_id>/x.md", ".", "b.md", "._/x.md"},
		"empty":                         {"<run_id>/x.md", "", "b.md", "_/x.md"},
		"null byte":                     {"<run_id>.md", "a\x00b", "b.md", "a_b.md"},
		"new line":                      {"<run_id>.md", "a\nb\x1b[2J", "b.md", "a_b_[2J.md"},
		"forbidden on some system":      {"<run_id>.md", `a:b*c?d"e|f<g>h`, "b.md", "a_b_c_d_e_f_g_h.md"},
		"right to left override":        {"<run_id>.md", "a\u202edm.exe", "b.md", "a_dm.exe.md"},
		"right to left letters":         {"<run_id>.md", "שלום", "b.md", "שלום.md"},
		"not UTF-8":                     {"<run_id>.md", "a\xffb", "b.md", "a_b.md"},
		"a device on Windows":           {"logs/<run_id>.json", "nul", "b.md", "logs/_nul.json"},
		"a device with an ending":       {"<run_id>/x.md", "Com1 .tar", "b.md", "_Com1 .tar/x.md"},
		"half a device":                 {"co<run_id>.md", "n", "b.md", "_con.md"},
		"a device of the user's own":    {"nul/<run_id>.md", "r1", "b.md", "nul/r1.md"},
		"not quite a device":            {"<run_id>.md", "null", "b.md", "null.md"},
		"spaces and accents":            {"<run_id>.md", "Zoë’s run", "b.md", "Zoë’s run.md"},
		"a long name of the user's own": {strings.Repeat("a", 230) + "/<run_id>.md", "r1", "b.md", strings.Repeat("a", 230) + "/r1.md"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Name(oneRun(tt.id, tt.fileB), tt.pattern, 0); got != tt.want {
				t.Errorf("Name(%q) = %q, want %q", tt.pattern, got, tt.want)
			}
		})
	}
}

// File systems take names of up to 255 bytes, and writing needs some of these; two long names that differ
// anywhere still differ when they are cut.
func TestNameCutsLongNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []string{
		strings.Repeat("a", 1000),
		strings.Repeat("a", 1001),
		strings.Repeat("a", 500) + "b" + strings.Repeat("a", 500),
		strings.Repeat("é", 600),
		"x" + strings.Repeat("é", 600),
		strings.Repeat("模", 300),
	} {
		got := Name(oneRun(id, "b.md"), "out/<run_id>.md", 0)
		folder, file := filepath.Split(got)
		if folder != "out/" || len(file) > 200 || filepath.Ext(file) != ".md" || !utf8.ValidString(file) {
			t.Errorf("the name of an id of %d bytes is %q (%d bytes)", len(id), got, len(file))
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%.20q… and %.20q… get one name, %q", id, other, got)
		}
		seen[got] = id
	}
}

func TestUnknownPlaceholders(t *testing.T) {
	t.Parallel()
	if got := Unknown("<provider>/<file_a_stem>.<file_b_stem>.<model_name>.<run_id>.md"); len(got) != 0 {
		t.Errorf("unknown are %q, want none", got)
	}
	got := Unknown("out/<run>.<run_id>.<Model>.md")
	if len(got) != 2 || got[0] != "<run>" || got[1] != "<Model>" {
		t.Errorf("unknown are %q, want <run> and <Model>", got)
	}
}

// Runs whose ids become one name, also in a file system that does not tell upper from lower case,
// have files of their own.
func TestNamesDiffer(t *testing.T) {
	t.Parallel()
	runs := oneRun("a/b", "in.md")
	for _, id := range []string{"a_b", "A_B", "c"} {
		runs.List = append(runs.List, eval.FileRun{ID: id, FileA: 0, FileB: 1})
	}
	for pattern, want := range map[string][]string{
		"logs/<run_id>.json": {"logs/a_b.json", "logs/a_b.1.json", "logs/A_B.2.json", "logs/c.json"},
		"": {"in.gpt-5-mini.a_b.fpf.response.md", "in.gpt-5-mini.a_b.1.fpf.response.md", "in.gpt-5-mini.A_B.2.fpf.response.md",
			"in.gpt-5-mini.c.fpf.response.md"},
	} {
		if got := Names(runs, pattern); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", pattern, got, want)
		}
	}
}

// Whatever a run's values are, in a pattern of one folder and one file the answer
// stays in that folder, under a name that a file may have.
func FuzzOutputStaysInItsFolder(f *testing.F) {
	for _, seed := range []string{"r1", "..", "/", "\x00", "", "\u202e", "<run_id>", strings.Repeat("a", 300)} {
		f.Add(seed, seed+".md")
	}
	f.Fuzz(func(t *testing.T, id, file string) {
		got := Name(oneRun(id, file), "out/<file_b_stem><run_id>", 0)
		folder, name, _ := strings.Cut(got, "/")
		if folder != "out" || strings.ContainsAny(name, "/\\\x00") || name == "." || name == ".." || name == "" || len(name) > 200 || !filepath.IsLocal(got) {
			t.Errorf("the answer of id %q, file %q is %q", id, file, got)
		}
	})
}
